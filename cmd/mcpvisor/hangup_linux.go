package main

import "golang.org/x/sys/unix"

// hangupEvents are those of a socket whose peer has shut down its side; some hosts use sockets as pipes.
const hangupEvents = unix.POLLRDHUP
