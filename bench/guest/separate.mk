# SPDX-License-Identifier: GPL-2.0-only
# What ../small_applications.py has made in a guest, from clean: each file by a compiler of its own, then the linker.
CFLAGS := -std=gnu11 -O2 -D_GNU_SOURCE
OBJECTS := bench.o small.o pipes.o

small: $(OBJECTS)
	gcc -o $@ $(OBJECTS)

%.o: %.c bench.h measure.h
	gcc $(CFLAGS) -c -o $@ $<
