/* Preloaded into a server under test: counts what it syncs, leaves out what WEFT_SYNCS_OFF names,
 * and stops the process before one of them.
 *
 *   WEFT_SYNCS_LOG   file that gets a line for each sync: its number, "on" or "off", and the path
 *   WEFT_SYNCS_OFF   pattern (fnmatch) of paths whose syncs return success and do nothing
 *   WEFT_SYNCS_STOP  number of the sync before which the process gets SIGSTOP
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long count;

/* Whether the sync of this descriptor is left out. */
static int left_out(int fd)
{
    char link[64], path[PATH_MAX], line[PATH_MAX + 64];
    const char *log = getenv("WEFT_SYNCS_LOG");
    const char *off = getenv("WEFT_SYNCS_OFF");
    const char *stop = getenv("WEFT_SYNCS_STOP");
    long number = atomic_fetch_add(&count, 1) + 1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    int out = off && fnmatch(off, path, FNM_PATHNAME) == 0;
    if (stop && number == atol(stop)) {
        kill(getpid(), SIGSTOP);
        /* The signal may be taken by another thread: this one must not go on before it is. */
        for (;;)
            pause();
    }
    int to = log ? open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (to >= 0) {
        int bytes = snprintf(line, sizeof line, "%ld %s %s\n", number, out ? "off" : "on", path);
        if (write(to, line, bytes) != bytes)
            abort();
        close(to);
    }
    return out;
}

int fsync(int fd)
{
    return left_out(fd) ? 0 : syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return left_out(fd) ? 0 : syscall(SYS_fdatasync, fd);
}

int syncfs(int fd)
{
    return left_out(fd) ? 0 : syscall(SYS_syncfs, fd);
}

int sync_file_range(int fd, off_t offset, off_t bytes, unsigned flags)
{
    return left_out(fd) ? 0 : syscall(SYS_sync_file_range, fd, offset, bytes, flags);
}
