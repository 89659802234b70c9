/* locker - POSIX record locks for the restart test.
 *   cc -O2 -static -o locker locker.c
 *   locker hold FILE READY RELEASE   takes a write lock on the first 100 bytes of FILE, creates
 *                                    READY, waits until RELEASE exists, writes under the lock,
 *                                    makes that stable, and leaves
 *   locker try FILE                  tries the same lock once, without waiting
 * Exit status: 0 the lock was had, 1 another process holds it, 2 anything else. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOCKED 0
#define REFUSED 1
#define BROKEN 2
/* A server restart with its grace period lasts some ten seconds; a guest on a busy host is slow. */
#define HOLD_SECONDS_MAX 240

static int broken(const char *what) {
    fprintf(stderr, "locker: %s: %s\n", what, strerror(errno));
    return BROKEN;
}

static int lock_first_bytes(int fd) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 100};
    if (fcntl(fd, F_SETLK, &lock) == 0)
        return LOCKED;
    return errno == EAGAIN || errno == EACCES ? REFUSED : broken("fcntl");
}

static int hold(const char *path, const char *ready, const char *release) {
    int fd = open(path, O_CREAT | O_RDWR, 0644);
    if (fd < 0)
        return broken(path);
    int outcome = lock_first_bytes(fd);
    if (outcome != LOCKED)
        return outcome;
    int mark = open(ready, O_CREAT | O_WRONLY, 0644);
    if (mark < 0 || close(mark))
        return broken(ready);
    for (int tenths = 0; access(release, F_OK); tenths++) {
        if (tenths == HOLD_SECONDS_MAX * 10) {
            errno = ETIMEDOUT;
            return broken(release);
        }
        usleep(100000);
    }
    /* A client that could not reclaim the lock fails this write with EIO. */
    if (pwrite(fd, "held", 4, 0) != 4 || fsync(fd))
        return broken("write under the lock");
    return close(fd) ? broken("close") : LOCKED;
}

static int try_once(const char *path) {
    int fd = open(path, O_RDWR);
    if (fd < 0)
        return broken(path);
    int outcome = lock_first_bytes(fd);
    return close(fd) ? broken("close") : outcome;
}

int main(int argc, char **argv) {
    if (argc == 5 && !strcmp(argv[1], "hold"))
        return hold(argv[2], argv[3], argv[4]);
    if (argc == 3 && !strcmp(argv[1], "try"))
        return try_once(argv[2]);
    fprintf(stderr, "locker hold FILE READY RELEASE | locker try FILE\n");
    return BROKEN;
}
