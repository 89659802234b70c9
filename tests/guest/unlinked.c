/* unlinked - a file is removed while it is locked, mapped, and has bytes that are only in memory, as SQLite's `-shm` is
 * when the last process has done with it.
 *   cc -O2 -static -o unlinked unlinked.c
 *   unlinked FILE
 * FILE must not be there. It is opened a second time for all of this, so that a client to whom it is delegated opens it
 * by itself. Exit status: 0 it has no name any more, 2 anything else. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BROKEN 2
#define BYTES 32768

static int broken(const char *what) {
    fprintf(stderr, "unlinked: %s: %s\n", what, strerror(errno));
    return BROKEN;
}

static int make(const char *name) {
    static const char zeros[BYTES];
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return broken(name);
    if (write(fd, zeros, sizeof zeros) != sizeof zeros || fsync(fd) != 0)
        return broken("write");
    return close(fd) == 0 ? 0 : broken("close");
}

int main(int argc, char **argv) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    if (argc != 2) {
        fprintf(stderr, "usage: unlinked FILE\n");
        return BROKEN;
    }
    if (make(argv[1]) != 0)
        return BROKEN;
    int fd = open(argv[1], O_RDWR);
    if (fd < 0)
        return broken(argv[1]);
    char *bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return broken("mmap");
    if (fcntl(fd, F_SETLK, &lock) != 0)
        return broken("lock");
    memset(bytes, 'x', BYTES);
    if (unlink(argv[1]) != 0)
        return broken("unlink");
    munmap(bytes, BYTES);
    close(fd); /* What was in memory is of no use to anybody: whether it is written is the client's affair. */
    return 0;
}
