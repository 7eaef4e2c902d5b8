// Package house checks rules about the source: which package may import which, what the
// public API may expose, how large files and packages may be, and which words are not
// used. The program itself is not run.
package house
