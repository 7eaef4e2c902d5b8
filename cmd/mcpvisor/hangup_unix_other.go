//go:build unix && !linux

package main

// hangupEvents are none here: the end of a pipe is reported without them.
const hangupEvents = 0
