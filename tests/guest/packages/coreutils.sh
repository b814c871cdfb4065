#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# coreutils and similar tools: files, text, sums, links, limits, archives.
set -u
seq 1 20000 > numbers
wc numbers
sha256sum numbers
sort -rn numbers | head -3
sort -R --random-source=/dev/zero numbers | sort -n | cmp - numbers && echo "shuffled and sorted"
shuf -i 1-1000 | sort -n | tail -1
split -l 3000 numbers part.
ls part.* | wc -l
cat part.* | cmp - numbers && echo "parts agree"
tr 0-9 a-j < numbers | md5sum
cut -c1-2 numbers | uniq -c | sort -n | tail -2
paste -sd+ numbers | cut -c1-40
sort part.aa > left && sort numbers > right
comm -12 left right | wc -l
join left right | wc -l
od -An -tx1 -N16 numbers
base64 numbers | base64 -d | cmp - numbers && echo "base64 agrees"
dd if=/dev/zero of=zeros bs=64k count=64 2>/dev/null
stat -c '%s %a %h %F' zeros
truncate -s 10G sparse && stat -c '%s' sparse && du -k sparse | cut -f1
cp -a numbers copy && ln numbers hard && ln -s numbers soft && stat -c '%h' numbers && readlink soft
mkdir -p deep/er/directory && touch deep/er/directory/file && find deep | sort
mv deep/er deep/est && find deep -type f -exec basename {} \;
chmod 741 copy && stat -c '%A' copy
chown 12:34 copy && stat -c '%u:%g' copy
install -m 600 numbers installed && stat -c '%a' installed
tar cf - part.* | tar tf - | wc -l
gzip -c numbers | gunzip | cmp - numbers && echo "gzip agrees"
seq 1 100 | xargs -n 10 -P 4 echo | wc -l
tee copied < numbers | cmp - numbers && cmp copied numbers && echo "tee agrees"
timeout 0.1 sleep 10; echo "timeout: $?"
timeout -s KILL 0.1 sh -c 'while :; do :; done'; echo "killed: $?"
nice -n 5 nice
env -i A=1 env
date -u -d @86400 +%F
printf '%05.2f|%x|%s\n' 3.14159 255 text
expr 6 \* 7
factor 1234567890
test -d . -a -w . && echo "writable"
mkfifo fifo && (cat fifo & echo "through the fifo" > fifo; wait)
tail -f -n 1 numbers & tailer=$!
sleep 0.3; echo last >> numbers; sleep 1.5; kill $tailer
wait $tailer 2>/dev/null
df --output=target . > /dev/null && echo "df works"
id -un; id -g root
yes | head -100000 | wc -l
