// Package process holds what a fixture does to its own process: signals, and
// grandchildren that outlive it.
package process
