//go:build !linux

package hostile

// linuxRows is empty: these misbehaviours need Linux.
var linuxRows []Misbehaviour
