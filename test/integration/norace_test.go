//go:build linux && !race

package integration

// raceDetector is whether this binary was built with the race detector.
const raceDetector = false
