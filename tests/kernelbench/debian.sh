#!/bin/sh
# The Debian with programs that people use, in /host, its servers, and what is asked of them on /mnt by all who use them
# (sourced, after common.sh).

program() { chroot /host "$@"; }
as_postgres() { program /usr/bin/setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
sql() { as_postgres /usr/lib/postgresql/15/bin/psql -h /tmp -qAt -c "$1" postgres; }

prepare_root() {
  for dir in tmp run mnt; do mount -t tmpfs -o mode=1777 tmpfs /host/$dir || fail "tmpfs"; done
  mount -t proc proc /host/proc || fail "proc"
  mount -t tmpfs -o mode=755 tmpfs /host/dev || fail "tmpfs"
  for node in null zero random urandom; do cp -a /dev/$node /host/dev || fail "/dev/$node"; done
  mkdir -p /host/dev/shm && chmod 1777 /host/dev/shm
  export PATH="$PATH:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/tmp LC_ALL=C
  export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' \
    GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a
}

mount_new() { # PORT
  mount_server /mnt "$1"
  mount --bind /mnt /host/mnt || fail "bind"
}

unmount_all() {
  unmount /host/mnt
  unmount /mnt
}

make_folders() {
  mkdir -p /mnt/git /mnt/sqlite /mnt/redis /mnt/postgres /mnt/mail/tmp /mnt/mail/new || fail "mkdir"
  chown "$(stat -c %u:%g /host/var/lib/postgresql)" /mnt/postgres || fail "chown"
  chmod 700 /mnt/postgres || fail "chmod"
  echo 0 >/mnt/count
}

make_sqlite() { # JOURNAL
  program sqlite3 "/mnt/sqlite/$1.db" \
    "pragma journal_mode=$1; create table t (writer, number, bytes);" >/dev/null || fail "no database"
}

redis() { program redis-cli -s /tmp/redis.sock "$@"; }
redis_answers() { [ "$(redis ping 2>/dev/null)" = PONG ]; }

start_redis() {
  program redis-server --port 0 --unixsocket /tmp/redis.sock --dir /mnt/redis --save '' --appendonly yes \
    --appendfsync always --daemonize yes >/dev/null || fail "redis"
  until_true 60 redis redis_answers
}

stop_redis() {
  redis shutdown nosave || fail "redis shutdown"
  until_true 60 "end of redis" test ! -e /host/tmp/redis.sock
}

postgres_ctl() { as_postgres /usr/lib/postgresql/15/bin/pg_ctl -s -w -t 120 -D /mnt/postgres "$@"; }

start_postgres() {
  postgres_ctl -l /tmp/postgres.log -o "-c listen_addresses='' -c unix_socket_directories=/tmp" start ||
    fail "postgres: $(cat /host/tmp/postgres.log)"
}

stop_postgres() { postgres_ctl -m fast stop || fail "pg_ctl stop"; }

pgbench() { as_postgres /usr/lib/postgresql/15/bin/pgbench -h /tmp "$@" postgres; }

# With the tables of pgbench, so many times 100,000 accounts.
make_database() { # SCALE
  as_postgres /usr/lib/postgresql/15/bin/initdb -D /mnt/postgres -k -A trust >/tmp/initdb.said 2>&1 ||
    fail "initdb: $(tail -5 /tmp/initdb.said)"
  start_postgres
  pgbench -i -q -s "$1" >/dev/null 2>&1 || fail "pgbench -i"
}

# What the transactions of pgbench moved is where it should be.
sums_agree() {
  said=$(sql 'select (select coalesce(sum(delta), 0) from pgbench_history) =
    all (select sum(abalance) from pgbench_accounts union all select sum(bbalance) from pgbench_branches)')
  [ "$said" = t ] || fail "PostgreSQL: the sums differ"
}

# Of a server that has ended.
checksums_agree() {
  as_postgres /usr/lib/postgresql/15/bin/pg_checksums -c -D /mnt/postgres >/dev/null || fail "pg_checksums"
}

write_deliver() {
  cat >/host/tmp/deliver.pl <<'END'
# deliver.pl N: as a mail server delivers: written and synced in tmp, then linked into new. Says `acked mail NUMBER`.
use strict; use IO::Handle;
$| = 1;
for my $i (1 .. $ARGV[0]) {
  open my $out, '>', "/mnt/mail/tmp/$i" or die "open: $!";
  print $out "Subject: $i\n\n", "x" x (500 * ($i % 20)), "\n";
  $out->flush && $out->sync or die "sync: $!";
  close $out or die "close: $!";
  link "/mnt/mail/tmp/$i", "/mnt/mail/new/$i" or die "link: $!";
  unlink "/mnt/mail/tmp/$i" or die "unlink: $!";
  print "acked mail $i\n";
}
END
}

deliver() { program perl /tmp/deliver.pl "$1"; }

mail_is_whole() { # N
  for i in $(seq "$1"); do
    [ "$(stat -c %s "/mnt/mail/new/$i")" = $((${#i} + 12 + 500 * (i % 20))) ] || fail "mail $i"
  done
}
