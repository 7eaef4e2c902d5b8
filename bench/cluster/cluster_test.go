package main

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/guard"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
)

func TestMain(m *testing.M) {
	guard.Main(etcd.Release)
	if !runNode() {
		os.Exit(m.Run())
	}
}

// TestCompare: the comparison can be carried out, and what it measures of a fleet is sound.
func TestCompare(t *testing.T) {
	if _, err := etcdProgram(); err != nil {
		t.Skip(err)
	}
	if testing.Short() { // nodes of the other system sometimes end under load, and then there is nothing to compare
		t.Skip("make bench-cluster does it")
	}
	f := compare(t.Context(), sizes{names: 6, load: 100 * time.Millisecond, patience: 2 * time.Second}, 1, "kill,load")
	for _, system := range []string{theirs, ours} {
		for _, key := range []string{"small 1", "small 64", "memory loaded", "kill back"} {
			if v := f[system][key]; len(v) != 1 || v[0] <= 0 {
				t.Errorf("%s: %s is %v", system, key, v)
			}
		}
	}
	if v := f[ours]["kill twice"][0]; v != 0 {
		t.Errorf("%v names of the fleet lived twice", v)
	}
	var table strings.Builder
	f.print(&table)
	t.Log("\n" + table.String())
}

func TestOverlap(t *testing.T) {
	const log = "start 1 x 1000000000\nbeat 0 - 1500000000\nbeat 0 - 4000000000\ncall 1 x 4000000000\nend 1 x 4200000000\n"
	old := parseLives("a", []byte(log))
	lives := append(old, parseLives("b", []byte("start 1 x 3000000000\nbeat 0 - 3900000000\nbeat 0 - 4700000000\n"))...)
	// Until 1.5 s and from 4.0 s to 4.2 s the first one runs; the second one from 3.0 s.
	if names, longest := twice(lives, 0); names != 1 || longest != 200*time.Millisecond {
		t.Errorf("%d names for %v", names, longest)
	}
	if n := late(lives, 0); n != 1 {
		t.Errorf("%d late calls", n)
	}
	if names := on(lives, "b"); len(names) != 1 || len(on(lives, "a")) != 0 {
		t.Errorf("on b: %v", names)
	}
}

func TestShow(t *testing.T) {
	for want, got := range map[string]string{
		"2.0 s (1.0–3.0)":   show([]float64{3, 1, 2}, "%.1f s"),
		" of 7":             show([]float64{7, 7, 7}, " of %.0f"),
		"never (1.0–never)": show([]float64{1, math.Inf(1), math.Inf(1)}, "%.1f s"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
