#!/bin/sh
# posix-steps.sh: everyday file operations in the current folder, each with its observable result on
# stdout. Nothing printed may depend on the file system's name, clock, inode numbers or order of
# directory entries: two correct file systems give the same transcript.
step() { # COMMAND...: the command, its output, its status
  echo "\$ $*"
  "$@" 2>&1
  echo "-> $?"
}
facts() { # FILE...: what stat says; size and link count of folders are the file system's business
  for f; do
    if [ -d "$f" ] && [ ! -L "$f" ]; then stat -c '%n %F %a %u:%g' "$f" 2>&1
    else stat -c '%n %F %a %u:%g links %h size %s' "$f" 2>&1; fi
  done
}
listing() { (cd "$1" && find . | sort); }
sums() { (cd "$1" && find . -type f -exec md5sum {} + | sort -k 2); }
fill() { # FILE BYTES: the same bytes everywhere
  dd if=/job/pattern of="$1" bs="$2" count=1 2>/dev/null
}
umask 022
head -c 3000000 /bin/busybox >/job/pattern

echo '== create, stat'
step touch empty
printf 'hello\n' >file
facts empty file
step sh -c 'set -C; : >file' # O_EXCL on an existing name
step cat missing
step stat -c %n missing
step sh -c ': >missing/file'
step sh -c ': >file/below'
step touch -d '2001-02-03 04:05:06' empty
step stat -c '%Y %X' empty

echo '== rename'
step mv file renamed
step cat renamed file
printf 'other\n' >target
step mv renamed target
step cat target
facts target
step mkdir d1 d2
printf x >d1/x
step mv target d1/moved
step mv -T d1 d2 # onto an empty folder
listing .
step mkdir d3
printf y >d3/y
step mv -T d3 d2 # onto a full one
step mv d2 d2/below
step mv missing elsewhere
step mv -T d2 empty # a folder onto a file

echo '== unlink, mkdir, rmdir'
step rmdir d2
step rm d2/moved d2/x
step rmdir d2
step mkdir d3
step mkdir -p deep/a/b/c
step rm missing
step rmdir missing
step rmdir empty
listing .

echo '== an open file outlives its name'
printf 'still here\n' >open
exec 9<open
step rm open
step cat open
step cat <&9
exec 9<&-

echo '== symlinks'
step ln -s empty soft
step ln -s /no/such/place dangling
step ln -s loop-b loop-a
step ln -s loop-a loop-b
step readlink soft
step readlink dangling
facts soft
step cat dangling
step cat loop-a
step ln -s elsewhere soft
printf 'through\n' >soft
step cat empty

echo '== hard links'
step ln empty hard
facts empty hard
step ln empty hard
step ln deep hard-folder
[ "$(stat -c %i empty)" = "$(stat -c %i hard)" ] && echo same inode
step rm empty
facts hard
step cat hard

echo '== modes and owners'
printf secret >secret
step chmod 0600 secret
step chown 1234:5678 secret
facts secret
step chmod 7755 secret
facts secret
step chown 1:1 secret # takes the set-id bits away
facts secret
step chmod 0640 secret
step chown 1234:5678 secret
as() { setuidgid "$1" sh -c "$2" 2>&1; echo "-> $?"; }
printf 'owner:x:1234:5678::/:/bin/sh\nother:x:4321:4321::/:/bin/sh\n' >>/etc/passwd
as owner 'cat secret; echo >>secret'
as other 'cat secret'
as other 'echo >>secret'
as other 'chmod 777 secret'
as other 'rm -f secret'
as other ': >new'
step mkdir -m 1777 sticky
printf mine >sticky/mine
step chown 1234 sticky/mine
as other 'rm -f sticky/mine'
as other ': >sticky/theirs'
facts sticky sticky/mine sticky/theirs
step mkdir -m 2775 setgid
step chown 0:5678 setgid
step chmod 2775 setgid
: >setgid/child
step mkdir setgid/folder
facts setgid setgid/child setgid/folder
step rm secret

echo '== truncate, append, holes'
fill big 3000000
md5sum big
step truncate -s 1500001 big
facts big
md5sum big
step truncate -s 4000000 big
facts big
md5sum big
step truncate -s 0 big
facts big
printf 'one\n' >log
printf 'two\n' >>log
printf 'three\n' >>log
step cat log
dd if=/job/pattern of=sparse bs=1000 count=3 seek=5000 2>/dev/null
facts sparse
md5sum sparse
dd if=/job/pattern of=sparse bs=777 count=5 seek=3 conv=notrunc 2>/dev/null
facts sparse
md5sum sparse
step truncate -s 1099511627776 sparse
facts sparse
step truncate -s 10 sparse
md5sum sparse

echo '== fsync and direct writes'
step sh -c 'dd if=/job/pattern of=synced bs=65536 count=20 conv=fsync 2>/dev/null'
md5sum synced
step sh -c 'dd if=/job/pattern of=direct bs=1M count=2 2>/dev/null'
step sh -c 'dd if=/job/pattern of=direct bs=4096 seek=3 count=9 conv=notrunc,fsync 2>/dev/null'
md5sum direct
step sync

echo '== special files'
step mkfifo fifo
facts fifo
(echo through a fifo >fifo) &
step cat fifo
wait
step mknod device c 1 3
facts device
step cat device

echo '== a tree: cp -a, diff -r, tar'
step cp -a /job/tree tree
step diff -r /job/tree tree
(cd /job/tree && find . -exec stat -c '%n %F %a %u:%g' {} + | sort) >/tmp/tree.want
(cd tree && find . -exec stat -c '%n %F %a %u:%g' {} + | sort) >/tmp/tree.got
step diff /tmp/tree.want /tmp/tree.got
(cd /job/tree && find . -type f -exec stat -c '%n %s %Y' {} + | sort) >/tmp/tree.want
(cd tree && find . -type f -exec stat -c '%n %s %Y' {} + | sort) >/tmp/tree.got
step diff /tmp/tree.want /tmp/tree.got
step tar -cf tree.tar tree
step mkdir untarred
step tar -xf tree.tar -C untarred
step diff -r tree untarred/tree
step mv tree untarred/moved-tree
step diff -r untarred/moved-tree untarred/tree
step rm -r untarred/tree
sums untarred | wc -l

echo '== many names'
mkdir many
i=0
while [ $i -lt 300 ]; do
  : >"many/name-$i"
  i=$((i + 1))
done
listing many | wc -l
rm many/name-*7
listing many | md5sum
step mkdir 'odd names'
: >'odd names/ leading and trailing '
: >'odd names/-dash'
: >'odd names/back\slash'
: >'odd names/é漢'
listing 'odd names'
step touch "$(head -c 255 /dev/zero | tr '\0' n)"
step touch "$(head -c 256 /dev/zero | tr '\0' n)"
listing . | md5sum
