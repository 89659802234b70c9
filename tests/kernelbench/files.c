/* files - one kind of work on many small files, timed; a process for each file would be most of what is
 * measured.
 *   cc -O2 -static -o files files.c
 *   files COMMAND DIR COUNT BEFORE AFTER [BLOCKS]   work on COUNT files in DIR; prints the seconds
 *   files tree DIR DIRS FILES                       DIRS directories of FILES files of 1 to 8 KiB each
 * COMMAND is one of those in `commands` below. BEFORE and AFTER get what /proc/self/mountstats said
 * right before and after the work. Each block of 8 KiB that a command writes can be told from all others:
 * `read` wants files of the BLOCKS, a letter each: w(rite), o(verwrite), a(ppend), t(runcate).
 * Exit status: 0 all was done, 1 it was not, or bytes are wrong (stderr says which). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 8192
/* Most blocks of a file that is read. */
#define BLOCKS_MAX 16
/* The blocks of a file of medium size. */
#define MEDIUM "wwwwwwwwwwwwwwww"
/* Smallest file of a tree. */
#define KIB 1024

static const char *dir, *blocks = "";

static void fail(const char *what, const char *which) {
    fprintf(stderr, "files: %s %s: %s\n", what, which, strerror(errno));
    exit(1);
}

static void wrong(const char *which, const char *how) {
    fprintf(stderr, "files: %s %s\n", which, how);
    exit(1);
}

/* Path of file NUMBER; good until the one after next is asked for. */
static const char *path(char kind, long number) {
    static char paths[2][PATH_MAX];
    static int turn;
    char *to = paths[turn = !turn];
    snprintf(to, sizeof paths[0], "%s/%c%ld", dir, kind, number);
    return to;
}

/* The bytes of a block: a stream of numbers that begins with what it is. */
static const uint64_t *block(long number, char kind) {
    static uint64_t words[BLOCK / sizeof(uint64_t)];
    uint64_t state = ((uint64_t)number << 8 | (unsigned char)kind) * 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < BLOCK / sizeof(uint64_t); i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        words[i] = state;
    }
    return words;
}

static int opened(const char *which, int flags) {
    int fd = open(which, flags, 0644);
    if (fd < 0)
        fail("open", which);
    return fd;
}

static void closed(int fd, const char *which) {
    if (close(fd))
        fail("close", which);
}

static void write_all(int fd, const void *bytes, size_t length, const char *which) {
    ssize_t done = write(fd, bytes, length);
    if (done < 0)
        fail("write", which);
    if ((size_t)done != length)
        wrong(which, "took less than was written");
}

static void put(long number, int flags, char kind) {
    const char *which = path('f', number);
    int fd = opened(which, flags | O_WRONLY);
    write_all(fd, block(number, kind), BLOCK, which);
    closed(fd, which);
}

/* What is created is asked for as the shell's `>` does; `tar` insists on a new file. */
static void create_one(long number) {
    const char *which = path('e', number);
    closed(opened(which, O_WRONLY | O_CREAT | O_TRUNC), which);
}

static void write_one(long number) { put(number, O_CREAT | O_TRUNC, 'w'); }
static void overwrite_one(long number) { put(number, 0, 'o'); }
static void append_one(long number) { put(number, O_APPEND, 'a'); }
static void truncate_one(long number) { put(number, O_TRUNC, 't'); }

/* The file is read whole, and has these blocks. */
static void compare(const char *which, long number, const char *kinds) {
    static char bytes[BLOCKS_MAX * BLOCK + 1]; /* one more than a file may have */
    size_t length = 0, wanted = strlen(kinds);
    int fd = opened(which, O_RDONLY);
    ssize_t got;
    while ((got = read(fd, bytes + length, sizeof bytes - length)) > 0)
        length += (size_t)got;
    if (got < 0)
        fail("read", which);
    closed(fd, which);
    if (length != wanted * BLOCK)
        wrong(which, "has the wrong length");
    for (size_t i = 0; i < wanted; i++)
        if (memcmp(bytes + i * BLOCK, block(number, kinds[i]), BLOCK))
            wrong(which, "has the wrong bytes");
}

static void read_one(long number) { compare(path('f', number), number, blocks); }

static void chmod_one(long number) {
    const char *which = path('f', number);
    if (chmod(which, 0600))
        fail("chmod", which);
}

static void stat_one(long number) {
    const char *which = path('f', number);
    struct stat is;
    if (stat(which, &is))
        fail("stat", which);
    if (is.st_size != (off_t)strlen(blocks) * BLOCK)
        wrong(which, "has the wrong length");
}

static void rename_one(long number) {
    const char *from = path('f', number), *to = path('g', number);
    if (rename(from, to))
        fail("rename", from);
}

static void removed(const char *which) {
    if (unlink(which))
        fail("unlink", which);
}

static void remove_one(long number) { removed(path('g', number)); }

/* Durable when it is closed, as images and checkpoints are made. */
static void medium_one(long number) {
    const char *which = path('m', number);
    int fd = opened(which, O_CREAT | O_EXCL | O_WRONLY);
    for (const char *kind = MEDIUM; *kind; kind++)
        write_all(fd, block(number, *kind), BLOCK, which);
    if (fsync(fd))
        fail("fsync", which);
    closed(fd, which);
}

static void medium_read_one(long number) { compare(path('m', number), number, MEDIUM); }
static void medium_remove_one(long number) { removed(path('m', number)); }

static const struct {
    const char *name;
    void (*one)(long number);
} commands[] = {
    {"create", create_one}, {"write", write_one},       {"read", read_one},
    {"append", append_one}, {"overwrite", overwrite_one}, {"truncate", truncate_one},
    {"chmod", chmod_one},   {"stat", stat_one},         {"rename", rename_one},
    {"remove", remove_one},
    {"medium", medium_one}, {"medium-read", medium_read_one}, {"medium-remove", medium_remove_one},
};

static void save_mountstats(const char *as) {
    static char text[1 << 16];
    int from = opened("/proc/self/mountstats", O_RDONLY);
    int to = opened(as, O_WRONLY | O_CREAT | O_TRUNC);
    ssize_t got;
    while ((got = read(from, text, sizeof text)) > 0)
        write_all(to, text, (size_t)got, as);
    if (got < 0)
        fail("read", "/proc/self/mountstats");
    closed(from, "/proc/self/mountstats");
    closed(to, as);
}

static double now(void) {
    struct timespec time;
    if (clock_gettime(CLOCK_MONOTONIC, &time))
        fail("clock_gettime", "");
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void measure(void (*one)(long), long count, const char *before, const char *after) {
    save_mountstats(before);
    double begun = now();
    for (long i = 0; i < count; i++)
        one(i);
    double ended = now();
    save_mountstats(after);
    printf("%.6f\n", ended - begun);
}

static void tree(long dirs, long files) {
    for (long d = 0; d < dirs; d++) {
        char in[PATH_MAX], which[PATH_MAX + 32];
        snprintf(in, sizeof in, "%s/dir%ld", dir, d);
        if (mkdir(in, 0755))
            fail("mkdir", in);
        for (long f = 0; f < files; f++) {
            snprintf(which, sizeof which, "%s/file%ld", in, f);
            int fd = opened(which, O_WRONLY | O_CREAT | O_EXCL);
            size_t length = (size_t)(f % (BLOCK / KIB) + 1) * KIB;
            write_all(fd, block(d * files + f, 'x'), length, which);
            closed(fd, which);
        }
    }
}

int main(int argc, char **argv) {
    if (argc < 5)
        wrong("COMMAND", "wants its arguments");
    dir = argv[2];
    if (!strcmp(argv[1], "tree") && argc == 5)
        return tree(atol(argv[3]), atol(argv[4])), 0;
    if (argc > 6)
        blocks = argv[6];
    if (strlen(blocks) > BLOCKS_MAX)
        wrong("BLOCKS", "are too many");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[1], commands[i].name) && argc > 5)
            return measure(commands[i].one, atol(argv[3]), argv[4], argv[5]), 0;
    wrong(argv[1], "is no command");
}
