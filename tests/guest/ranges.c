/* ranges - writes and checks bytes that depend on a seed and on their place in the file only, so
 * that two machines know without talking what the other has written.
 *   cc -O2 -static -o ranges ranges.c
 *   ranges write FILE SEED OFFSET LENGTH [FLAG...]
 *   ranges check FILE SEED OFFSET LENGTH [FLAG...]
 * Flags: create, trunc, direct (O_DIRECT), sync (fsync before close), slow=MARK (until the file
 * MARK exists there is a pause before each piece, and the last one waits for it), every=N (N bytes
 * of each 2 N, starting at OFFSET: the other half is somebody else's);
 * of check: holes (a byte may be 0 instead).
 * Exit status: 0 done, or all bytes are right; 1 a byte differs (stdout says which); 2 anything else. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIFFERS 1
#define BROKEN 2
/* One write(2): what a client can put into one WRITE, and a multiple of every O_DIRECT block. */
#define PIECE (1 << 18)
#define PAUSE_US 30000
/* How often the last piece pauses at most: two minutes. */
#define PAUSES_MAX (120000000 / PAUSE_US)

static struct {
    uint64_t seed;
    long long every, end;
    const char *slow;
    int open_flags, sync, holes;
} want;
static unsigned char *piece, *expected;

static int broken(const char *what) {
    fprintf(stderr, "ranges: %s: %s\n", what, strerror(errno));
    return BROKEN;
}

static uint64_t word_at(long long place) {
    uint64_t mix = (uint64_t)(place / 8 + 1) * 0x9E3779B97F4A7C15u ^ want.seed * 0xC2B2AE3D27D4EB4Fu;
    mix ^= mix >> 29;
    return mix * 0xBF58476D1CE4E5B9u;
}

static void fill(unsigned char *bytes, long long place, long long length) {
    uint64_t word = word_at(place);
    for (long long i = 0; i < length; i++, place++) {
        if (place % 8 == 0)
            word = word_at(place);
        bytes[i] = (unsigned char)(word >> (8 * (place % 8)));
    }
}

static void pause_before(int is_last) {
    for (int pauses = is_last ? PAUSES_MAX : 1; pauses && access(want.slow, F_OK); pauses--)
        usleep(PAUSE_US);
}

static int write_piece(int fd, long long place, long long length) {
    fill(piece, place, length);
    if (want.slow)
        pause_before(place + length == want.end);
    for (long long done = 0; done < length;) {
        ssize_t put = pwrite(fd, piece + done, (size_t)(length - done), place + done);
        if (put <= 0)
            return broken("write");
        done += put;
    }
    return 0;
}

static int check_piece(int fd, long long place, long long length) {
    for (long long done = 0; done < length;) {
        ssize_t got = pread(fd, piece + done, (size_t)(length - done), place + done);
        if (got < 0)
            return broken("read");
        if (got == 0) {
            printf("ranges: the file ends at %lld\n", place + done);
            return DIFFERS;
        }
        done += got;
    }
    fill(expected, place, length);
    for (long long i = 0; i < length; i++) {
        if (piece[i] == expected[i] || (want.holes && piece[i] == 0))
            continue;
        printf("ranges: byte %lld is %#x, not %#x\n", place + i, piece[i], expected[i]);
        return DIFFERS;
    }
    return 0;
}

static int flag(const char *name) {
    if (!strcmp(name, "create"))
        want.open_flags |= O_CREAT;
    else if (!strcmp(name, "trunc"))
        want.open_flags |= O_TRUNC;
    else if (!strcmp(name, "direct"))
        want.open_flags |= O_DIRECT;
    else if (!strcmp(name, "sync"))
        want.sync = 1;
    else if (!strncmp(name, "slow=", 5))
        want.slow = name + 5;
    else if (!strcmp(name, "holes"))
        want.holes = 1;
    else if (!strncmp(name, "every=", 6) && atoll(name + 6) > 0)
        want.every = atoll(name + 6);
    else
        return -1;
    return 0;
}

static int each_piece(int fd, int (*act)(int, long long, long long), long long from, long long length) {
    long long step = want.every ? want.every : length;
    for (long long start = from; start < from + length; start += want.every ? 2 * step : step) {
        long long stop = start + step < from + length ? start + step : from + length;
        for (long long place = start; place < stop; place += PIECE) {
            int outcome = act(fd, place, stop - place < PIECE ? stop - place : PIECE);
            if (outcome)
                return outcome;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    int writes = argc > 5 && !strcmp(argv[1], "write");
    for (int i = 6; i < argc; i++)
        if (flag(argv[i]))
            argc = 0;
    if (argc < 6 || (!writes && strcmp(argv[1], "check"))) {
        fprintf(stderr, "ranges write|check FILE SEED OFFSET LENGTH [FLAG...]\n");
        return BROKEN;
    }
    want.seed = strtoull(argv[3], NULL, 10);
    if (posix_memalign((void **)&piece, 4096, PIECE) || !(expected = malloc(PIECE)))
        return broken("memory");
    int fd = open(argv[2], (writes ? O_WRONLY : O_RDONLY) | want.open_flags, 0644);
    if (fd < 0)
        return broken(argv[2]);
    want.end = atoll(argv[4]) + atoll(argv[5]);
    int outcome = each_piece(fd, writes ? write_piece : check_piece, atoll(argv[4]), atoll(argv[5]));
    if (outcome)
        return outcome;
    if (want.sync && fsync(fd))
        return broken("fsync");
    return close(fd) ? broken("close") : 0;
}
