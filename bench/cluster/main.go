// Command cluster compares a fleet of mcpvisor with the cluster of the actor library that mcpvisor
// supervises with on each node: three processes each on this machine, with the same etcd, leases,
// servers, mutual TLS, and faults. It prints a table in Markdown. Linux.
//
// It is a module of its own: that cluster brings modules that nothing else here needs.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor/fleet/guard"
	"github.com/mcpvisor/mcpvisor/fleet/store/etcd"
)

func main() {
	guard.Main(etcd.Release)
	if runNode() {
		return
	}
	var s sizes
	rounds := flag.Int("rounds", 3, "rounds; the table has medians")
	flag.IntVar(&s.names, "names", 60, "servers")
	flag.DurationVar(&s.load, "load", 2*time.Second, "length of one measurement of load")
	flag.DurationVar(&s.stop, "stop", 10*time.Second, "how long a node is stopped")
	flag.DurationVar(&s.patience, "patience", 10*time.Second, "how long to wait for what may never come")
	only := flag.String("only", "", "scenarios to run, comma-separated: join, kill, stop, processes, load (empty: all)")
	flag.Parse()
	compare(context.Background(), s, *rounds, *only).print(os.Stdout)
}

// check ends the program: a benchmark that cannot be carried out has no result.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// scenarios are the parts of a round, each with a cluster of its own.
var scenarios = []struct {
	name    string
	systems []string
	config  nodeConfig
	measure func(*run)
}{
	{"join", []string{theirs, ours}, nodeConfig{LogCalls: true}, (*run).joinAndDrain},
	{"kill", []string{theirs, ours, unguarded}, nodeConfig{LogCalls: true}, (*run).killed},
	{"stop", []string{theirs, ours, unguarded}, nodeConfig{LogCalls: true}, (*run).stopped},
	{"processes", []string{theirs, ours, unguarded}, nodeConfig{LogCalls: true, Stdio: true}, (*run).stopped},
	{"load", []string{theirs, ours}, nodeConfig{}, (*run).loaded},
}

// figures are what was measured, by system and key, a value for each round.
type figures map[string]values

// compare runs the scenarios, in each round with one system after the other.
func compare(ctx context.Context, s sizes, rounds int, only string) figures {
	folder := must(os.MkdirTemp("", "bench-cluster"))
	defer func() { _ = os.RemoveAll(folder) }()
	endpoint, stop := startEtcd(ctx, filepath.Join(folder, "etcd"))
	defer stop()
	f := figures{theirs: {}, ours: {}, unguarded: {}}
	for round := range rounds {
		for _, sc := range scenarios {
			if only != "" && !slices.Contains(strings.Split(only, ","), sc.name) {
				continue
			}
			for i := range sc.systems {
				c := sc.config
				c.System = sc.systems[(i+round)%len(sc.systems)]
				c.Cluster = fmt.Sprintf("%s-%02d-%d", sc.name, round, i)
				c.Etcd, c.Folder = endpoint, filepath.Join(folder, c.Cluster)
				f.add(c, s, sc.measure)
			}
		}
	}
	return f
}

// add carries out a scenario with one system.
func (f figures) add(c nodeConfig, s sizes, measure func(*run)) {
	prefix := ""
	if c.Stdio {
		s.names, prefix = max(3, s.names/4), "processes "
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", c.Cluster, c.System)
	n := newNodes(c)
	defer n.close()
	measure(&run{sizes: s, nodes: n, put: func(key string, value float64) {
		fmt.Fprintf(os.Stderr, "  %s%s: %.4g\n", prefix, key, value)
		f[c.System][prefix+key] = append(f[c.System][prefix+key], value)
	}})
}

const (
	twiceCell  = "%.0f:KEY twice| of %.0f:KEY moved"
	failedCell = "%.0f:KEY failed|, %.0f:KEY hung|, %.0f:KEY not sent"
)

// rows are those of the table: a title, a key, and a cell. A cell has formats, each with what is
// formatted: KEY stands for the key.
var rows = [][3]string{
	{"a third node joins: names alive twice, of those that moved", "join", twiceCell},
	{"… for at most", "join", "%.2f s:KEY longest"},
	{"… calls that failed, to their timeout, certainly not sent", "join", failedCell},
	{"a node drains: names alive twice, of those that moved", "drain", twiceCell},
	{"… for at most", "drain", "%.2f s:KEY longest"},
	{"… calls that failed, to their timeout, certainly not sent", "drain", failedCell},
	{"… until the node has left", "drain", "%.1f s:KEY took"},
	{"kill -9 of a node: names alive twice, of those that moved", "kill", twiceCell},
	{"… calls that failed, to their timeout, certainly not sent", "kill", failedCell},
	{"… until each name has answered a new call", "kill", "%.1f s:KEY back"},
	{"a node is stopped, and continues: names alive twice, of those that moved", "stop", twiceCell},
	{"… for at most", "stop", "%.2f s:KEY longest"},
	{"… calls that an old life carried out afterwards", "stop", "%.0f:KEY late"},
	{"… calls that failed, to their timeout, certainly not sent", "stop", failedCell},
	{"… from then until the node is a member again", "stop", "%.1f s:KEY rejoined"},
	{"the same, each server a process: names alive twice, of those that moved", "processes stop", twiceCell},
	{"… for at most", "processes stop", "%.2f s:KEY longest"},
	{"… calls that an old life carried out afterwards", "processes stop", "%.0f:KEY late"},
	{"100 B, one caller, calls/s", "small 1", "%.0f:KEY"},
	{"100 B, 64 callers, calls/s", "small 64", "%.0f:KEY"},
	{"100 KB in both directions, 64 callers, calls/s", "large 64", "%.0f:KEY"},
	{"… calls that failed, to their timeout", "large 64", "%.0f:KEY failed|, %.0f:KEY hung"},
	{"resident memory of the largest node, idle", "memory", "%.0f MB:KEY idle"},
	{"… after this load", "memory", "%.0f MB:KEY loaded"},
}

// print writes the table: medians, and the least and the most of all rounds.
func (f figures) print(w io.Writer) {
	columns := []string{theirs, ours, unguarded}
	_, _ = fmt.Fprintf(w, "| | %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)+1))
	for _, row := range rows {
		line := "| " + row[0]
		for _, system := range columns {
			line += " | " + f[system].cell(row[1], row[2])
		}
		_, _ = fmt.Fprintln(w, line+" |")
	}
}

type values map[string][]float64

func (v values) cell(key, cell string) (text string) {
	for part := range strings.SplitSeq(strings.ReplaceAll(cell, "KEY", key), "|") {
		format, key, _ := strings.Cut(part, ":")
		if len(v[key]) == 0 {
			return "–"
		}
		text += show(v[key], format)
	}
	return text
}

// show shows values as their median, and their range if it has one. A format has text, a verb, and
// after a space the unit.
func show(v []float64, format string) string {
	before, verb, _ := strings.Cut(format, "%")
	verb, unit, has := strings.Cut("%"+verb, " ")
	if has {
		unit = " " + unit
	}
	text := func(v float64) string {
		if math.IsInf(v, 1) {
			return "never"
		}
		return fmt.Sprintf(verb, v)
	}
	middle, least, most := text(median(v)), text(slices.Min(v)), text(slices.Max(v))
	if middle == "never" {
		unit = ""
	}
	if least == most {
		return before + middle + unit
	}
	return fmt.Sprintf("%s%s%s (%s–%s)", before, middle, unit, least, most)
}
