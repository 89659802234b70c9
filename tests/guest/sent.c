/* sent - writes a file and sends it to its servers without asking them to keep it, waits, closes.
 *   cc -O2 -static -o sent sent.c
 *   sent FILE BYTES GO
 * FILE is made anew, of one letter; GO.sent is made when all is sent; the file is closed when GO is
 * there. Exit status: 0 if close was told that all is well, 1 if not, 2 anything else. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char block[1 << 20];

static int broken(const char *what) {
    fprintf(stderr, "sent: %s: %s\n", what, strerror(errno));
    return 2;
}

int main(int argc, char **argv) {
    char sent[256];
    if (argc != 4)
        return errno = EINVAL, broken("sent FILE BYTES GO");
    snprintf(sent, sizeof sent, "%s.sent", argv[3]);
    memset(block, 'o', sizeof block);
    int fd = open(argv[1], O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (fd < 0)
        return broken(argv[1]);
    for (long left = atol(argv[2]); left > 0;) {
        ssize_t put = write(fd, block, left < (long)sizeof block ? (size_t)left : sizeof block);
        if (put <= 0)
            return broken("write");
        left -= put;
    }
    if (sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER))
        return broken("sync_file_range");
    if (close(open(sent, O_CREAT | O_WRONLY, 0644)))
        return broken(sent);
    while (access(argv[3], F_OK))
        usleep(10000);
    if (close(fd)) {
        fprintf(stderr, "sent: close: %s\n", strerror(errno));
        return 1;
    }
    return 0;
}
