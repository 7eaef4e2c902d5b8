package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The guard compares with a bare pipe, whose cost changes with the machine, so it does not see a call become
// dearer by a tenth. This comparison does: the same driver is built in this tree and in that of a commit, and both
// processes make the same calls in turn, in the same minutes, on one processor each.

const (
	// pairRounds are the paired rounds of a comparison. In each, both programs make pairSlices slices of pairCalls
	// calls in turn, and the lower quartile of its slices is what a call costs: it leaves out those that other load
	// of the machine has disturbed.
	pairRounds = 15
	pairSlices = 12
	pairCalls  = 2_500
	// pairTries are how often a comparison that fails is made again: other load of the machine must not fail it.
	pairTries = 6
	// dearer is how much more CPU time a call may cost than at the commit.
	dearer = 1.10
)

// against compares the CPU time of a call with a build of a commit.
func against(ctx context.Context, commit string) (err error) {
	dir, err := os.MkdirTemp("", "mcpvisor-against-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	top, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	root, tree, archive := strings.TrimSpace(string(top)), filepath.Join(dir, "tree"), filepath.Join(dir, "tree.tar")
	if err := command(ctx, root, "git", "archive", "--output", archive, commit); err != nil {
		return fmt.Errorf("the commit %s cannot be read; a shallow clone lacks it (git fetch --unshallow): %w", commit, err)
	}
	source, err := os.ReadFile(filepath.Join(root, "bench/pairdriver/main.go"))
	if err != nil {
		return err
	}
	before, now := filepath.Join(dir, "before"), filepath.Join(dir, "now")
	for _, step := range []func() error{
		func() error { return os.MkdirAll(filepath.Join(tree, "pairdriver"), 0o755) },
		func() error { return command(ctx, tree, "tar", "-xf", archive) },
		func() error { return os.WriteFile(filepath.Join(tree, "pairdriver/main.go"), source, 0o644) },
		func() error { return command(ctx, tree, "go", "build", "-o", before, "./pairdriver") },
		func() error {
			return command(ctx, filepath.Join(root, "bench"), "go", "build", "-o", now, "./pairdriver")
		},
		func() error { return compareWith(ctx, commit, before, now, "") },
		func() error { return compareWith(ctx, commit, before, now, " raw") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// compareWith makes the calls of one kind with two builds.
func compareWith(ctx context.Context, commit, before, now, kind string) error {
	for try := 1; ; try++ {
		a, err := startPair(ctx, before)
		if err != nil {
			return err
		}
		b, err := startPair(ctx, now)
		if err != nil {
			return errors.Join(err, a.end())
		}
		ratio, micros, err := pairedRatio(a, b, kind)
		if err = errors.Join(err, a.end(), b.end()); err != nil {
			return err
		}
		fmt.Printf("64 callers%s: %.2f µs of CPU a call, %.2f × that of %s (median of %d paired rounds)\n", kind, micros, ratio, commit, pairRounds)
		if ratio <= dearer {
			return nil
		}
		if try == pairTries {
			return fmt.Errorf("a call costs %.2f × the CPU time that it cost at %s, %d times out of %d; at most %.2f is allowed", ratio, commit, try, try, dearer)
		}
	}
}

// pairedRatio is the median of the ratios of b to a over the rounds, and the median cost of b.
func pairedRatio(a, b *pairDriver, kind string) (ratio, micros float64, err error) {
	var ratios, costs []float64
	for round := range pairRounds + 1 {
		var before, now []float64
		for range pairSlices {
			if err := errors.Join(a.slice(kind), b.slice(kind)); err != nil {
				return 0, 0, err
			}
			before, now = append(before, a.micros), append(now, b.micros)
		}
		slices.Sort(before)
		slices.Sort(now)
		if round > 0 { // the first one warms up
			ratios, costs = append(ratios, now[pairSlices/4]/before[pairSlices/4]), append(costs, now[pairSlices/4])
		}
	}
	return median(ratios), median(costs), nil
}

// pairDriver is a running pairdriver.
type pairDriver struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	micros float64 // of a call of the last slice
}

func startPair(ctx context.Context, program string) (*pairDriver, error) {
	cmd := exec.CommandContext(ctx, program, fastServer)
	cmd.Env, cmd.Stderr = append(os.Environ(), "GOMAXPROCS=1"), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &pairDriver{cmd: cmd, in: in, out: bufio.NewScanner(out)}, cmd.Start()
}

func (p *pairDriver) slice(kind string) (err error) {
	if _, err := fmt.Fprintf(p.in, "%d%s\n", pairCalls, kind); err != nil {
		return err
	}
	if !p.out.Scan() {
		return errors.Join(errors.New("a driver has ended"), p.out.Err())
	}
	p.micros, err = strconv.ParseFloat(p.out.Text(), 64)
	return err
}

func (p *pairDriver) end() error {
	_ = p.in.Close()
	return p.cmd.Wait()
}

// command runs a program, and shows what it writes.
func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, os.Stderr, os.Stderr, append(os.Environ(), "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}
