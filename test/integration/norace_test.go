//go:build linux && !race

package integration

// raceDetector is whether this binary was built with the race detector.
const raceDetector = false

// slower is how many times as long a step may take as without the race detector.
const slower = 1
