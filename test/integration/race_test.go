//go:build linux && race

package integration

// raceDetector is whether this binary carries the race detector.
const raceDetector = true
