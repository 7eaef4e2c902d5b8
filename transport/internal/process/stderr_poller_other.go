//go:build !linux

package process

import "os"

// stderrPolls is for Linux. Elsewhere each stderr has a goroutine.
var stderrPolls stderrPoller

type stderrPoller struct{}

type polledStderr struct{}

func (stderrPoller) add(*os.File, *StderrTail, chan struct{}) *polledStderr { return nil }

func (stderrPoller) remove(*polledStderr) {}
