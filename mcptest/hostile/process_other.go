//go:build !linux

package hostile

// linuxRows is what only a process on Linux can do.
var linuxRows []Misbehaviour
