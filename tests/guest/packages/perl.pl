#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-only
# perl: text, sorting, processes, pipes, signals, sockets.
use strict;
use warnings;
use IO::Socket::INET;
use POSIX qw(:sys_wait_h strftime);

$| = 1;
my %count;
$count{$_}++ for split //, join '', map { $_ ** 3 } 1 .. 500;
print join(' ', map { "$_:$count{$_}" } sort keys %count), "\n";
my $text = 'a1b22c333';
(my $swapped = $text) =~ s/([a-z])(\d+)/$2$1/g;
print "$swapped ", join(',', $text =~ /(\d+)/g), "\n";
print strftime('%Y-%m-%d', gmtime 0), "\n";

my $pid = fork;
if (!$pid) { exit 9 }
waitpid $pid, 0;
print 'status ', $? >> 8, "\n";
open my $pipe, '-|', 'seq 5' or die;
print join('+', map { chomp; $_ } <$pipe>), "\n";
close $pipe;

my $caught = 0;
$SIG{USR1} = sub { $caught++ };
kill USR1 => $$ for 1 .. 3;
print "caught $caught\n";
eval { local $SIG{ALRM} = sub { die "alarm\n" }; alarm 1; 1 while 1; };
print "interrupted by $@";

my $server = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die;
if (!fork) {
    my $client = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->sockport) or die;
    print $client "hello\n";
    exit 0;
}
my $line = $server->accept->getline;
print "received $line";
wait;
print 'sorted ', join(' ', (sort { $a <=> $b } map { ($_ * 7919) % 1009 } 1 .. 1000)[0 .. 4]), "\n";
exit 2;
