/* locker - POSIX record locks for the tests of restarts and of two clients.
 *   cc -O2 -static -o locker locker.c
 *   locker hold FILE READY RELEASE   takes a write lock on the first 100 bytes of FILE, writes, makes
 *                                    that stable, writes again, creates READY, waits until RELEASE
 *                                    exists, writes under the lock, makes that stable, and leaves
 *   locker busy FILE READY           takes that lock, creates READY, and then writes and makes stable
 *                                    without pause until it gets an error
 *   locker share FILE READY RELEASE  the same with a read lock, and without writing
 *   locker try FILE [START [LENGTH]] tries a write lock once, without waiting
 *   locker wait FILE                 waits for the write lock as long as it takes
 *   locker tell FILE                 prints which lock is in the way (F_GETLK): "write 0 100",
 *                                    "read 0 100" or "none"
 *   locker count FILE TIMES HOW      adds one to the number in FILE TIMES times, each time under a
 *                                    lock of its own; HOW is fcntl or flock
 * Exit status: 0 the lock was had, 1 another process holds it, 2 anything else. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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

static int lock(int fd, int command, short type, off_t start, off_t length) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    if (fcntl(fd, command, &lock) == 0)
        return LOCKED;
    return errno == EAGAIN || errno == EACCES ? REFUSED : broken("fcntl");
}

static int lock_first_bytes(int fd, int command, short type) {
    return lock(fd, command, type, 0, 100);
}

static int open_locked(const char *path, int *fd) {
    *fd = open(path, O_CREAT | O_RDWR, 0644);
    return *fd < 0 ? broken(path) : lock_first_bytes(*fd, F_SETLK, F_WRLCK);
}

static int create(const char *path) {
    int mark = open(path, O_CREAT | O_WRONLY, 0644);
    return mark < 0 || close(mark) ? broken(path) : 0;
}

static int busy(const char *path, const char *ready) {
    int fd, outcome = open_locked(path, &fd);
    if (outcome != LOCKED)
        return outcome;
    if (create(ready))
        return BROKEN;
    while (pwrite(fd, "mine", 4, 0) == 4 && !fsync(fd))
        ;
    return broken("write under the lock");
}

static int until_released(const char *ready, const char *release) {
    if (create(ready))
        return BROKEN;
    for (int tenths = 0; access(release, F_OK); tenths++) {
        if (tenths == HOLD_SECONDS_MAX * 10) {
            errno = ETIMEDOUT;
            return broken(release);
        }
        usleep(100000);
    }
    return LOCKED;
}

static int hold(const char *path, const char *ready, const char *release) {
    int fd, outcome = open_locked(path, &fd);
    if (outcome != LOCKED)
        return outcome;
    /* From here on there are a layout (if there are any) and, for a while, a dirty page. */
    if (pwrite(fd, "mine", 4, 0) != 4 || fsync(fd) || pwrite(fd, "dirt", 4, 0) != 4)
        return broken("first write under the lock");
    outcome = until_released(ready, release);
    if (outcome != LOCKED)
        return outcome;
    /* A client that could not reclaim the lock fails this write with EIO. */
    if (pwrite(fd, "held", 4, 0) != 4 || fsync(fd))
        return broken("write under the lock");
    return close(fd) ? broken("close") : LOCKED;
}

/* The file is opened for reading only: a client with a delegation need not ask for that. */
static int share(const char *path, const char *ready, const char *release) {
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return broken(path);
    int outcome = lock_first_bytes(fd, F_SETLK, F_RDLCK);
    if (outcome == LOCKED)
        outcome = until_released(ready, release);
    if (outcome != LOCKED)
        return outcome;
    return close(fd) ? broken("close") : LOCKED;
}

static int get(const char *path, int command, off_t start, off_t length) {
    int fd = open(path, O_RDWR);
    if (fd < 0)
        return broken(path);
    int outcome = lock(fd, command, F_WRLCK, start, length);
    return close(fd) ? broken("close") : outcome;
}

static int tell(const char *path) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    int fd = open(path, O_RDWR);
    if (fd < 0 || fcntl(fd, F_GETLK, &lock))
        return broken(path);
    if (lock.l_type == F_UNLCK)
        puts("none");
    else
        printf("%s %lld %lld\n", lock.l_type == F_WRLCK ? "write" : "read",
               (long long)lock.l_start, (long long)lock.l_len);
    return close(fd) ? broken("close") : LOCKED;
}

static int add_one(int fd) {
    char text[32] = "";
    if (pread(fd, text, sizeof text - 1, 0) < 0)
        return broken("read");
    int length = snprintf(text, sizeof text, "%019ld\n", strtol(text, NULL, 10) + 1);
    return pwrite(fd, text, (size_t)length, 0) == length ? LOCKED : broken("write");
}

static int count(const char *path, int times, int whole) {
    int fd = open(path, O_CREAT | O_RDWR, 0644);
    if (fd < 0)
        return broken(path);
    while (times-- > 0) {
        int outcome = whole ? (flock(fd, LOCK_EX) ? broken("flock") : LOCKED)
                            : lock_first_bytes(fd, F_SETLKW, F_WRLCK);
        if (outcome == LOCKED)
            outcome = add_one(fd);
        if (outcome != LOCKED)
            return outcome;
        if (whole ? flock(fd, LOCK_UN) : lock_first_bytes(fd, F_SETLK, F_UNLCK))
            return broken("unlock");
    }
    return close(fd) ? broken("close") : LOCKED;
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[1] : "";
    if (argc == 5 && !strcmp(what, "hold"))
        return hold(argv[2], argv[3], argv[4]);
    if (argc == 5 && !strcmp(what, "share"))
        return share(argv[2], argv[3], argv[4]);
    if (argc == 5 && !strcmp(what, "count"))
        return count(argv[2], atoi(argv[3]), !strcmp(argv[4], "flock"));
    if (argc == 4 && !strcmp(what, "busy"))
        return busy(argv[2], argv[3]);
    if (!strcmp(what, "try"))
        return get(argv[2], F_SETLK, argc > 3 ? atoll(argv[3]) : 0, argc > 4 ? atoll(argv[4]) : 100);
    if (argc == 3 && !strcmp(what, "wait"))
        return get(argv[2], F_SETLKW, 0, 100);
    if (argc == 3 && !strcmp(what, "tell"))
        return tell(argv[2]);
    fprintf(stderr, "locker hold|busy|share|try|wait|tell|count FILE ... (see its source)\n");
    return BROKEN;
}
