/* museum - faults that were reported of other file servers and clients, as acts of a program that
 * finds none of them on a correct file system. docs/museum.md says what was reported where.
 *   cc -O2 -static -o museum museum.c
 *   museum DIR ACT...      each act in a new folder DIR/ACT; prints `ok ACT` or `not ok ACT: WHY`
 *   museum DIR all         every act
 * Exit status: the number of acts that failed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB 1024
#define MIB (1024 * KIB)
/* An act that takes longer hangs. */
#define SECONDS_MAX 30

static const char *act_name;

static _Noreturn void fails(const char *format, ...) {
    int error = errno;
    va_list list;
    printf("not ok %s: ", act_name);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf(" (errno %d)\n", error);
    fflush(stdout);
    _exit(1);
}

/* The condition holds, or the act fails with the words. */
#define must(condition, ...) ((condition) ? (void)0 : fails(__VA_ARGS__))

/* Bytes that depend on a seed and their position. */
static unsigned char byte_at(unsigned seed, off_t at) {
    unsigned long x = (unsigned long)at * 0x9E3779B97F4A7C15ul + seed * 0xBF58476D1CE4E5B9ul;
    return (unsigned char)((x ^ (x >> 29)) >> 11) | 1; /* never the byte of a hole */
}

static void fill(unsigned char *bytes, size_t length, unsigned seed, off_t at) {
    for (size_t i = 0; i < length; i++)
        bytes[i] = byte_at(seed, at + (off_t)i);
}

static int opened(const char *name, int flags) {
    int fd = open(name, flags, 0644);
    must(fd >= 0, "open %s", name);
    return fd;
}

static void put(int fd, size_t length, unsigned seed, off_t at) {
    unsigned char *bytes = malloc(length);
    fill(bytes, length, seed, at);
    for (size_t done = 0; done < length;) {
        ssize_t n = pwrite(fd, bytes + done, length - done, at + (off_t)done);
        must(n > 0, "write of %zu bytes at %lld", length, (long long)at);
        done += (size_t)n;
    }
    free(bytes);
}

static void finish(int fd) { must(close(fd) == 0, "close"); }

static off_t size_of(int fd) {
    struct stat facts;
    must(fstat(fd, &facts) == 0, "fstat");
    return facts.st_size;
}

static off_t size_at(const char *name) {
    struct stat facts;
    must(stat(name, &facts) == 0, "stat %s", name);
    return facts.st_size;
}

/* The bytes there are those of the seed, or zeros if the seed is 0. */
static void expects(int fd, size_t length, unsigned seed, off_t at) {
    unsigned char *bytes = malloc(length);
    size_t done = 0;
    for (ssize_t n; done < length; done += (size_t)n) {
        n = pread(fd, bytes + done, length - done, at + (off_t)done);
        must(n > 0, "read at %lld ends after %zu of %zu bytes", (long long)at, done, length);
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char wanted = seed ? byte_at(seed, at + (off_t)i) : 0;
        must(bytes[i] == wanted, "byte %lld is %d, not %d", (long long)at + (long long)i, bytes[i],
             wanted);
    }
    free(bytes);
}

/* The whole file has this length and is of this seed. */
static void holds(const char *name, size_t length, unsigned seed) {
    int fd = opened(name, O_RDONLY);
    off_t size = size_of(fd);
    must(size == (off_t)length, "%s has %lld bytes, not %zu", name, (long long)size, length);
    expects(fd, length, seed, 0);
    finish(fd);
}

static pid_t forked(void) {
    fflush(stdout);
    pid_t child = fork();
    must(child >= 0, "fork");
    return child;
}

/* A child that failed has said so. */
static void joined(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        must(errno == EINTR, "waitpid");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        _exit(1);
}

/* ---- names ---- */

static void unlinked_file_is_resized(void) {
    int fd = opened("file", O_RDWR | O_CREAT | O_TRUNC);
    put(fd, 9, 1, 0);
    must(unlink("file") == 0, "unlink");
    must(ftruncate(fd, 16384) == 0, "ftruncate of what was unlinked");
    must(fchmod(fd, 0600) == 0, "fchmod of what was unlinked");
    must(size_of(fd) == 16384, "its size is %lld", (long long)size_of(fd));
    expects(fd, 9, 1, 0);
    expects(fd, 16384 - 9, 0, 9);
    finish(fd);
    must(access("file", F_OK) < 0 && errno == ENOENT, "the name is there again");
}

static void directory_of_an_unlinked_open_file_goes(void) {
    must(mkdir("dir", 0755) == 0, "mkdir");
    int fd = opened("dir/file", O_RDWR | O_CREAT);
    put(fd, 100, 2, 0);
    must(unlink("dir/file") == 0, "unlink");
    must(rmdir("dir") == 0, "rmdir of a directory without names");
    expects(fd, 100, 2, 0);
    finish(fd);
}

static size_t length_of(int i) { return (size_t)i * 3001 % 200000; }

static void renamed_directory_keeps_its_files(void) {
    char name[64];
    int open_ones[80];
    must(mkdir("tmp", 0755) == 0 && mkdir("tmp/dist", 0755) == 0, "mkdir");
    for (int i = 0; i < 80; i++) {
        snprintf(name, sizeof name, "tmp/dist/%d", i);
        open_ones[i] = opened(name, O_WRONLY | O_CREAT | O_EXCL);
        put(open_ones[i], length_of(i), 3, 0);
        if (i % 4)
            finish(open_ones[i]);
    }
    must(mkdir("packages", 0755) == 0, "mkdir");
    must(rename("tmp", "packages/v1") == 0, "rename");
    for (int i = 0; i < 80; i += 4)
        finish(open_ones[i]);
    must(access("tmp", F_OK) < 0, "the old name is still there");
    for (int i = 0; i < 80; i++) {
        snprintf(name, sizeof name, "packages/v1/dist/%d", i);
        holds(name, length_of(i), 3);
    }
}

static void on_alarm(int signal) { (void)signal; }

static void signals_interrupt_no_change_of_a_name(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval often = {.it_interval = {0, 700}, .it_value = {0, 700}};
    must(sigaction(SIGVTALRM, &action, NULL) == 0 && sigaction(SIGALRM, &action, NULL) == 0,
         "sigaction");
    must(setitimer(ITIMER_REAL, &often, NULL) == 0, "setitimer");
    for (int i = 0; i < 150; i++) {
        int fd = open("a", O_WRONLY | O_CREAT | O_EXCL, 0644);
        must(fd >= 0, "create, round %d", i);
        must(close(fd) == 0, "close, round %d", i);
        must(rename("a", "b") == 0, "rename, round %d", i);
        must(mkdir("d", 0755) == 0, "mkdir, round %d", i);
        must(unlink("b") == 0, "unlink, round %d", i);
        must(rmdir("d") == 0, "rmdir, round %d", i);
    }
}

static void new_file_can_be_removed(void) {
    for (int i = 0; i < 40; i++) {
        int fd = opened("file", O_WRONLY | O_CREAT | O_EXCL);
        put(fd, 6, 4, 0);
        finish(fd);
        must(unlink("file") == 0, "unlink of what was just written, round %d", i);
        must(access("file", F_OK) < 0 && errno == ENOENT, "it is there again, round %d", i);
    }
    DIR *dir = opendir(".");
    for (struct dirent *entry; (entry = readdir(dir));)
        must(entry->d_name[0] == '.', "%s is listed", entry->d_name);
    closedir(dir);
}

/* ---- locks ---- */

static int lock_by(int fd, int command, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    return fcntl(fd, command, &lock);
}

static void count_under(int how, int times) {
    int lock = opened("lock", O_RDWR), counter = opened("counter", O_RDWR);
    for (int i = 0; i < times; i++) {
        int had = how == LOCK_EX ? flock(lock, LOCK_EX) : lock_by(lock, how, F_WRLCK);
        must(had == 0, "wait %d of a lock of kind %d", i, how);
        unsigned count = 0;
        must(pread(counter, &count, sizeof count, 0) == sizeof count, "read of the counter");
        count++;
        must(pwrite(counter, &count, sizeof count, 0) == sizeof count, "write of the counter");
        must((how == LOCK_EX ? flock(lock, LOCK_UN) : lock_by(lock, how, F_UNLCK)) == 0, "unlock");
    }
    _exit(0);
}

static void processes_that_contend_for_a_lock_get_it(void) {
    enum { PROCESSES = 4, TIMES = 10 };
    int kinds[] = {F_SETLKW, F_OFD_SETLKW, LOCK_EX};
    unsigned count = 0;
    finish(opened("lock", O_RDWR | O_CREAT));
    int counter = opened("counter", O_RDWR | O_CREAT);
    must(pwrite(counter, &count, sizeof count, 0) == sizeof count, "write");
    for (int kind = 0; kind < 3; kind++) {
        pid_t children[PROCESSES];
        for (int i = 0; i < PROCESSES; i++)
            if ((children[i] = forked()) == 0)
                count_under(kinds[kind], TIMES);
        for (int i = 0; i < PROCESSES; i++)
            joined(children[i]);
        must(pread(counter, &count, sizeof count, 0) == sizeof count, "read");
        must(count == (unsigned)(kind + 1) * PROCESSES * TIMES, "%u were counted by %d", count,
             (kind + 1) * PROCESSES * TIMES);
    }
    finish(counter);
}

/* NFS has no exclusive lock through an open that only reads: such a flock must fail at once, and
 * leave the file free. A local file system takes it. */
static void flock_takes_a_descriptor_that_only_reads_or_refuses_it(void) {
    finish(opened("script", O_WRONLY | O_CREAT));
    int fd = opened("script", O_RDONLY), other = opened("script", O_RDONLY);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        must(errno == EBADF, "flock of a descriptor that only reads");
        finish(fd);
        fd = opened("script", O_RDWR);
        must(flock(fd, LOCK_EX | LOCK_NB) == 0, "flock after one that was refused");
    }
    must(flock(other, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK, "it excludes nobody");
    must(flock(fd, LOCK_UN) == 0, "unlock");
    must(flock(other, LOCK_SH | LOCK_NB) == 0, "it is not free");
}

/* Whether another process can have the lock. */
static int is_free(const char *name) {
    pid_t child = forked();
    if (child == 0) {
        int fd = opened(name, O_RDWR);
        _exit(lock_by(fd, F_SETLK, F_WRLCK) == 0 ? 17 : 18);
    }
    int status;
    must(waitpid(child, &status, 0) == child && WIFEXITED(status), "waitpid");
    must(WEXITSTATUS(status) == 17 || WEXITSTATUS(status) == 18, "the other process");
    return WEXITSTATUS(status) == 17;
}

static void lock_of_a_description_lives_as_long_as_it(void) {
    int fd = opened("image", O_RDWR | O_CREAT), other = opened("image", O_RDWR);
    must(lock_by(fd, F_OFD_SETLK, F_WRLCK) == 0, "lock");
    must(lock_by(other, F_OFD_SETLK, F_WRLCK) < 0 && (errno == EAGAIN || errno == EACCES),
         "two descriptions have it");
    finish(other);
    must(!is_free("image"), "another descriptor's close took the lock away");
    int same = dup(fd);
    finish(fd);
    must(!is_free("image"), "it ended with one of two descriptors");
    finish(same);
    must(is_free("image"), "it outlives its description");
}

/* ---- holes ---- */

/* Data of so many bytes there is found, as it is and behind a hole that may be there. */
static void finds(int fd, off_t at, off_t length, const char *when) {
    off_t data = lseek(fd, at & ~4095, SEEK_DATA);
    must(data >= 0 && data <= at, "%s: data at %lld are found at %lld", when, (long long)at,
         (long long)data);
    off_t hole = lseek(fd, at, SEEK_HOLE);
    must(hole >= at + length, "%s: data at %lld end at %lld", when, (long long)at,
         (long long)hole);
}

static void data_is_found_before_it_is_written_back(void) {
    char name[32];
    for (int i = 1; i < 40; i++) {
        off_t at = (off_t)i * 256 * KIB;
        snprintf(name, sizeof name, "%d", i);
        int fd = opened(name, O_RDWR | O_CREAT);
        put(fd, 70000, 5, 0);
        must(fsync(fd) == 0, "fsync");
        put(fd, 5000, 5, at);
        finds(fd, at, 5000, "written");
        put(fd, 5000, 5, at + MIB);
        int again = opened(name, O_RDONLY);
        finds(again, at + MIB, 5000, "opened");
        finish(again);
        finish(fd);
    }
}

static void data_is_found_after_a_mapping_wrote_it(void) {
    enum { SIZE = 8 * MIB };
    int fd = opened("map", O_RDWR | O_CREAT);
    put(fd, 70000, 7, 0);
    must(fsync(fd) == 0 && ftruncate(fd, SIZE) == 0, "fsync and ftruncate");
    for (off_t at = MIB; at < SIZE; at += MIB) {
        char *map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        must(map != MAP_FAILED, "mmap");
        map[at] = 'x';
        finds(fd, at, 1, "mapped");
        map[at + 8192] = 'x';
        must(munmap(map, SIZE) == 0, "munmap");
        finds(fd, at + 8192, 1, "unmapped");
        int again = opened("map", O_RDONLY);
        finds(again, at, 1, "opened");
        unsigned char byte = 0;
        must(pread(again, &byte, 1, at) == 1 && byte == 'x', "it is %d", byte);
        finish(again);
    }
    finish(fd);
}

static void copy_has_the_holes_that_were_just_punched(void) {
    enum { SIZE = MIB, FROM = 256 * KIB, LENGTH = 512 * KIB };
    int fd = opened("out", O_RDWR | O_CREAT), copy = opened("copy", O_RDWR | O_CREAT);
    put(fd, SIZE, 6, 0);
    must(fsync(fd) == 0, "fsync");
    int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    must(fallocate(fd, punch, FROM, LENGTH) == 0, "fallocate");
    for (off_t from = 0, to = 0; from < SIZE;) {
        ssize_t n = copy_file_range(fd, &from, copy, &to, (size_t)(SIZE - from), 0);
        must(n > 0, "copy_file_range");
    }
    for (int i = 0; i < 2; i++) {
        int which = i ? copy : fd;
        must(size_of(which) == SIZE, "the size of %d is %lld", i, (long long)size_of(which));
        expects(which, FROM, 6, 0);
        expects(which, LENGTH, 0, FROM);
        expects(which, SIZE - FROM - LENGTH, 6, FROM + LENGTH);
    }
    finish(fd);
    finish(copy);
}

static void file_that_is_one_hole_keeps_its_size(void) {
    off_t size = 20ll * 1024 * MIB;
    int fd = opened("file", O_WRONLY | O_CREAT | O_EXCL);
    must(ftruncate(fd, size) == 0, "ftruncate");
    finish(fd);
    must(size_at("file") == size, "its size is %lld", (long long)size_at("file"));
    fd = opened("file", O_RDONLY);
    must(size_of(fd) == size, "its size is %lld", (long long)size_of(fd));
    expects(fd, 4096, 0, size - 4096);
    off_t data = lseek(fd, 0, SEEK_DATA);
    must(data >= 0 || errno == ENXIO, "SEEK_DATA");
    finish(fd);
}

static void mapping_of_a_file_that_just_grew_is_written(void) {
    FILE *file = fopen("file", "w+");
    must(file != NULL, "fopen");
    int fd = fileno(file);
    must(size_of(fd) == 0, "it is not empty");
    must(ftruncate(fd, 8192) == 0, "ftruncate");
    must(size_of(fd) == 8192, "its size is %lld", (long long)size_of(fd));
    unsigned char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(map != MAP_FAILED, "mmap");
    fill(map, 8192, 7, 0);
    must(msync(map, 8192, MS_SYNC) == 0, "msync");
    must(munmap(map, 8192) == 0 && fclose(file) == 0, "munmap and fclose");
    holds("file", 8192, 7);
}

/* ---- listing ---- */

enum { NAMES = 400 };

/* A name of a length that lets few of them into one reply. */
static void long_name(char *name, int i) {
    memset(name, 'n', 200);
    snprintf(name + 150, 50, "%d", i);
}

static void make_names(const char *dir) {
    must(mkdir(dir, 0755) == 0 && chdir(dir) == 0, "mkdir");
    for (int i = 0; i < NAMES; i++) {
        char name[256] = "";
        long_name(name, i);
        int fd = opened(name, O_WRONLY | O_CREAT | O_EXCL);
        put(fd, 10, 8, 0);
        finish(fd);
    }
}

static void directory_is_removed_while_it_is_listed(void) {
    make_names("dir");
    DIR *dir = opendir(".");
    must(dir != NULL, "opendir");
    int removed = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.') {
            must(unlink(entry->d_name) == 0, "unlink of a listed name, the %d.", removed);
            removed++;
        }
    closedir(dir);
    must(removed == NAMES, "%d of %d names were listed", removed, NAMES);
    must(chdir("..") == 0 && rmdir("dir") == 0, "rmdir of what was emptied");
}

static int number_in(const char *name) { return name[0] == '.' ? -1 : atoi(name + 150); }

static void every_name_is_listed_once(void) {
    static char seen[NAMES];
    static char buffer[2048]; /* a few entries: many calls, each going on at a cookie */
    make_names("dir");
    int fd = opened(".", O_RDONLY | O_DIRECTORY), count = 0;
    for (long n; (n = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) != 0;) {
        must(n > 0, "getdents64 after %d names", count);
        for (long at = 0; at < n;) {
            struct dirent64 *entry = (struct dirent64 *)(buffer + at);
            int number = number_in(entry->d_name);
            at += entry->d_reclen;
            if (number < 0)
                continue;
            must(number < NAMES && !seen[number], "%d is listed twice", number);
            seen[number] = 1;
            must(++count <= NAMES, "the listing does not end");
        }
    }
    must(count == NAMES, "%d of %d names are listed", count, NAMES);
    finish(fd);
}

static void listed_names_have_attributes(void) {
    make_names("dir");
    for (int round = 0; round < 2; round++) {
        DIR *dir = opendir(".");
        int count = 0;
        for (struct dirent *entry; (entry = readdir(dir));) {
            struct stat facts;
            must(fstatat(dirfd(dir), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0,
                 "attributes of %s", entry->d_name);
            if (entry->d_name[0] != '.') {
                must(facts.st_size == 10, "a size of %lld", (long long)facts.st_size);
                count++;
            }
        }
        closedir(dir);
        must(count == NAMES, "%d of %d names are listed", count, NAMES);
    }
}

/* ---- sizes ---- */

static void writers_side_by_side_add_up(void) {
    enum { WRITERS = 4, BLOCKS = 24, BLOCK = 64 * KIB, LAST = 777 };
    size_t whole = (size_t)WRITERS * BLOCKS * BLOCK;
    finish(opened("file", O_RDWR | O_CREAT));
    pid_t children[WRITERS];
    for (int w = 0; w < WRITERS; w++)
        if ((children[w] = forked()) == 0) {
            int fd = opened("file", O_WRONLY);
            for (int b = 0; b < BLOCKS; b++)
                put(fd, BLOCK, 9, (off_t)(b * WRITERS + w) * BLOCK);
            if (w == WRITERS - 1)
                put(fd, LAST, 9, (off_t)whole);
            finish(fd);
            _exit(0);
        }
    for (int w = 0; w < WRITERS; w++)
        joined(children[w]);
    must(size_at("file") == (off_t)whole + LAST, "its size is %lld", (long long)size_at("file"));
    holds("file", whole + LAST, 9);
}

static void small_file_is_synced(void) {
    char name[32];
    for (int i = 0; i < 15; i++) {
        snprintf(name, sizeof name, "mdtest.%d", i);
        int fd = opened(name, O_WRONLY | O_CREAT | O_TRUNC);
        put(fd, 3901, 10, 0);
        must(fsync(fd) == 0, "fsync of 3901 bytes");
        finish(fd);
        holds(name, 3901, 10);
    }
}

static void appends_add_up(void) {
    int reading = -1;
    for (int i = 0; i < 120; i++) {
        int fd = opened("log", O_WRONLY | O_APPEND | O_CREAT);
        unsigned char line[10];
        fill(line, sizeof line, 11, (off_t)i * 10);
        must(write(fd, line, sizeof line) == sizeof line, "append %d", i);
        if (reading < 0)
            reading = opened("log", O_RDONLY);
        must(size_of(reading) == (i + 1) * 10, "after append %d the size is %lld", i,
             (long long)size_of(reading));
        finish(fd);
    }
    finish(reading);
    holds("log", 1200, 11);
}

static void file_of_an_exbibyte_is_cut(void) {
    off_t sizes[] = {1ll << 60, 512, 0, 0, 700, 0, 1ll << 60, 1};
    int fd = opened("file", O_RDWR | O_CREAT);
    if (ftruncate(fd, sizes[0]) < 0 && errno == EFBIG) /* ext4 has 16 TiB at most */
        sizes[0] = sizes[6] = 1ll << 43;
    for (int i = 0; i < 8; i++) {
        int other = open("file", O_WRONLY | (sizes[i] ? 0 : O_TRUNC));
        must(other >= 0 && (!sizes[i] || ftruncate(other, sizes[i]) == 0), "cut %d", i);
        finish(other);
        must(size_of(fd) == sizes[i], "after cut %d its size is %lld", i, (long long)size_of(fd));
    }
    expects(fd, 1, 0, 0);
    finish(fd);
}

static void file_that_is_being_written_keeps_its_size_as_its_mode_changes(void) {
    int fd = opened("file", O_RDWR | O_CREAT);
    put(fd, 5000, 12, 0);
    must(fchmod(fd, 0600) == 0, "fchmod");
    must(size_of(fd) == 5000, "its size is %lld", (long long)size_of(fd));
    unsigned char *map = mmap(NULL, 5000, PROT_READ, MAP_SHARED, fd, 0);
    must(map != MAP_FAILED, "mmap");
    for (off_t at = 0; at < 5000; at += 1000)
        must(map[at] == byte_at(12, at), "byte %lld is %d", (long long)at, map[at]);
    must(munmap(map, 5000) == 0, "munmap");
    finish(fd);
    holds("file", 5000, 12);
}

#define ACT(name) {#name, name}

static const struct {
    const char *name;
    void (*act)(void);
} acts[] = {
    ACT(unlinked_file_is_resized),
    ACT(directory_of_an_unlinked_open_file_goes),
    ACT(renamed_directory_keeps_its_files),
    ACT(signals_interrupt_no_change_of_a_name),
    ACT(new_file_can_be_removed),
    ACT(processes_that_contend_for_a_lock_get_it),
    ACT(flock_takes_a_descriptor_that_only_reads_or_refuses_it),
    ACT(lock_of_a_description_lives_as_long_as_it),
    ACT(data_is_found_before_it_is_written_back),
    ACT(data_is_found_after_a_mapping_wrote_it),
    ACT(copy_has_the_holes_that_were_just_punched),
    ACT(file_that_is_one_hole_keeps_its_size),
    ACT(mapping_of_a_file_that_just_grew_is_written),
    ACT(directory_is_removed_while_it_is_listed),
    ACT(every_name_is_listed_once),
    ACT(listed_names_have_attributes),
    ACT(writers_side_by_side_add_up),
    ACT(small_file_is_synced),
    ACT(appends_add_up),
    ACT(file_of_an_exbibyte_is_cut),
    ACT(file_that_is_being_written_keeps_its_size_as_its_mode_changes),
};

/* Runs an act in a process of its own, since it may be killed; whether it failed. */
static int failed(const char *dir, const char *name, void (*act)(void)) {
    act_name = name;
    int folder = open(dir, O_RDONLY | O_DIRECTORY);
    must(folder >= 0, "%s", dir);
    pid_t child = forked();
    if (child == 0) {
        alarm(SECONDS_MAX);
        must(fchdir(folder) == 0 && mkdirat(folder, name, 0755) == 0 && chdir(name) == 0, "mkdir");
        act();
        printf("ok %s\n", name);
        fflush(stdout);
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) == child, "waitpid");
    close(folder);
    if (WIFSIGNALED(status))
        printf("not ok %s: signal %d\n", name, WTERMSIG(status));
    fflush(stdout);
    return status != 0;
}

int main(int argc, char **argv) {
    int failures = 0, found = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: museum DIR ACT...|all\n");
        return 99;
    }
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        for (int a = 2; a < argc; a++)
            if (strcmp(argv[a], acts[i].name) == 0 || strcmp(argv[a], "all") == 0) {
                failures += failed(argv[1], acts[i].name, acts[i].act);
                found++;
            }
    if (found == 0) {
        fprintf(stderr, "museum: no such act\n");
        return 99;
    }
    return failures;
}
