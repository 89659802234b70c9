/* growing - a file grows by asynchronous direct writes while several processes look at its size:
 * whoever was told that a write is done never sees the file without it.
 *   cc -O2 -static -o growing growing.c
 *   growing FILE WRITES WATCHERS
 * FILE is made anew. Exit status: 0 so it is (stdout: how often it was looked at), 1 the file was
 * too short (stdout says where), 2 anything else. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOO_SHORT 1
#define BROKEN 2
#define BLOCK 4096
/* Writes under way at once. */
#define DEPTH 128
/* Most processes that look. */
#define WATCHERS_MAX 8

static char block[BLOCK] __attribute__((aligned(BLOCK)));
static aio_context_t context;
static struct iocb writes[DEPTH];
static struct io_event done[DEPTH];

static int broken(const char *what) {
    fprintf(stderr, "growing: %s: %s\n", what, strerror(errno));
    return BROKEN;
}

static int submit(int fd, struct iocb *write, long long offset) {
    memset(write, 0, sizeof *write);
    write->aio_fildes = (uint32_t)fd;
    write->aio_lio_opcode = IOCB_CMD_PWRITE;
    write->aio_buf = (uint64_t)(uintptr_t)block;
    write->aio_nbytes = BLOCK;
    write->aio_offset = offset;
    return syscall(SYS_io_submit, context, 1L, &write) == 1 ? 0 : broken("io_submit");
}

static void watch(int fd) {
    struct stat is;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        fstat(fd, &is);
}

/* Waits for a write at least, and looks at the file after each; how many, or below 0. */
static long look(int fd) {
    long ended = syscall(SYS_io_getevents, context, 1L, (long)DEPTH, done, NULL);
    if (ended < 1)
        return -broken("io_getevents");
    for (long i = 0; i < ended; i++) {
        const struct iocb *write = (const struct iocb *)(uintptr_t)done[i].obj;
        struct stat is;
        if (done[i].res != BLOCK) {
            errno = (int)-done[i].res;
            return -broken("write");
        }
        if (fstat(fd, &is))
            return -broken("fstat");
        if (is.st_size < write->aio_offset + BLOCK) {
            printf("a write at %lld was done, and the file had %lld bytes\n",
                   (long long)write->aio_offset, (long long)is.st_size);
            return -TOO_SHORT;
        }
    }
    return ended;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return errno = EINVAL, broken("growing FILE WRITES WATCHERS");
    long count = atol(argv[2]), begun = 0, looked = 0;
    int fd = open(argv[1], O_CREAT | O_TRUNC | O_DIRECT | O_RDWR, 0600);
    if (fd < 0)
        return broken(argv[1]);
    if (syscall(SYS_io_setup, DEPTH, &context))
        return broken("io_setup");
    pid_t watchers[WATCHERS_MAX];
    int watching = 0;
    for (; watching < atoi(argv[3]) && watching < WATCHERS_MAX; watching++)
        if ((watchers[watching] = fork()) == 0)
            watch(fd);
    struct iocb *free_ones[DEPTH];
    int left = DEPTH;
    for (int i = 0; i < DEPTH; i++)
        free_ones[i] = &writes[i];
    while (looked < count) {
        for (; left && begun < count; begun++) {
            int failed = submit(fd, free_ones[--left], BLOCK * (long long)begun);
            if (failed)
                return failed;
        }
        long ended = look(fd);
        if (ended < 0)
            return (int)-ended;
        for (long i = 0; i < ended; i++)
            free_ones[left++] = (struct iocb *)(uintptr_t)done[i].obj;
        looked += ended;
    }
    /* Who unmounts next finds nobody in the way. */
    for (; watching; watching--) {
        kill(watchers[watching - 1], SIGKILL);
        waitpid(watchers[watching - 1], NULL, 0);
    }
    printf("%ld\n", looked);
    return 0;
}
