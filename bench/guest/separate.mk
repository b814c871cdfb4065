# SPDX-License-Identifier: GPL-2.0-only
# What ../small_applications.py has made in a guest, from clean: each file by a compiler of its own, then the linker.
CFLAGS := -std=gnu11 -O2 -D_GNU_SOURCE
SMALL := bench.o small.o pipes.o
GROWTH := growth.o growth_crowds.o growth_memory.o growth_objects.o

all: small growth

small: $(SMALL)
	gcc -o $@ $(SMALL)

growth: $(GROWTH)
	gcc -pthread -o $@ $(GROWTH)

$(SMALL): bench.h measure.h
$(GROWTH): growth.h measure.h

%.o: %.c
	gcc $(CFLAGS) -c -o $@ $<

.PHONY: all
