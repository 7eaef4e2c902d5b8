package records_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpvisor/mcpvisor"
	"github.com/mcpvisor/mcpvisor/internal/secret"
	"github.com/mcpvisor/mcpvisor/monitor"
	"github.com/mcpvisor/mcpvisor/records"
)

const killedVariable = "MCPVISOR_TEST_RECORDS"

// TestMain is also the process that records calls until it is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(killedVariable); dir != "" {
		w, err := records.Open(dir, records.Options{WhenFull: records.FullBlock})
		if err != nil {
			panic(err)
		}
		for {
			next := w.Stats().Written + 200
			for range 200 {
				w.Call(call("fs", "t", "{}"))
			}
			for w.Stats().Anchored < next { // so that the file stays short
				runtime.Gosched()
			}
		}
	}
	goleak.VerifyTestMain(m)
}

// A process that is killed while it writes keeps what the anchor covers, and the next one continues.
func TestWriter_is_killed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	var last uint64
	for range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killedVariable+"="+dir)
		require.NoError(t, cmd.Start())
		var report records.Report
		require.Eventually(t, func() bool {
			var err error
			report, err = records.Verify(dir, "", nil)
			return err == nil && report.Anchored > last+100
		}, time.Minute, 10*time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		now, err := records.Verify(dir, "", nil)
		require.NoError(t, err)
		require.GreaterOrEqual(t, now.Last, report.Anchored)
		last = now.Last
	}
	require.NoError(t, open(t, dir, records.Options{}).Close())
	_, err := records.Verify(dir, "", nil)
	require.NoError(t, err)
	require.Len(t, read(t, dir, records.Query{Kinds: []records.Kind{records.KindStart}}), 4)
}

func open(t *testing.T, dir string, o records.Options) *records.Writer {
	t.Helper()
	w, err := records.Open(dir, o)
	require.NoError(t, err)
	return w
}

func call(server, tool, arguments string) monitor.EndedCall {
	return monitor.EndedCall{CallRecord: monitor.CallRecord{Server: server, Method: "tools/call", Target: tool, Client: "host 1"}, Arguments: json.RawMessage(arguments)}
}

// written makes a directory of n calls, and returns it with the only file in it.
func written(t *testing.T, n int, o records.Options) (dir, file string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "records")
	w := open(t, dir, o)
	for i := range n {
		w.Call(call("fs", fmt.Sprint("t", i%3), fmt.Sprintf(`{"n":%d}`, i)))
	}
	require.NoError(t, w.Close())
	return dir, files(t, dir)[0]
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

func read(t *testing.T, dir string, q records.Query) (all []records.Record) {
	t.Helper()
	require.NoError(t, records.Read(dir, q, func(r records.Record) error { all = append(all, r); return nil }))
	return all
}

func TestWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	w := open(t, dir, records.Options{Arguments: records.ArgumentsWhole})
	_, err := records.Open(dir, records.Options{})
	require.ErrorContains(t, err, "another process writes there")
	w.Call(call("fs", "read", `{"b": 1, "a": 2}`))
	failed := call("git", "push", `{}`)
	failed.Kind, failed.Outcome, failed.Error, failed.Took, failed.Principal = mcpvisor.ErrCrashed, mcpvisor.OutcomeUnknown, "it crashed", time.Second, "bob"
	w.Call(failed)
	w.Event(mcpvisor.Event{Kind: mcpvisor.EventChanged, Server: "fs", Time: time.Now(), Change: &mcpvisor.Change{Tools: mcpvisor.Delta{Added: []string{"fs/new"}}}})
	w.Event(mcpvisor.Event{Kind: mcpvisor.EventLog, Server: "fs", Log: &mcpvisor.LogMessage{}})
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())

	w = open(t, dir, records.Options{}) // what was there before is there
	w.Add(records.Record{Kind: records.KindApproval, Server: "git", Text: "allowed"})
	require.NoError(t, w.Close())
	all := read(t, dir, records.Query{})
	var kinds []records.Kind
	for i, r := range all {
		kinds = append(kinds, r.Kind)
		require.Equal(t, uint64(i+2), r.Seq)
	}
	require.Equal(t, []records.Kind{records.KindStart, records.KindCall, records.KindCall, records.KindEvent, records.KindEnd,
		records.KindStart, records.KindApproval, records.KindEnd}, kinds)
	require.JSONEq(t, `{"a":2,"b":1}`, string(all[1].Arguments))
	require.Equal(t, mcpvisor.OutcomeAnswered, all[1].Outcome)
	require.Contains(t, all[3].Text, "changed: tools +1")
	require.Contains(t, string(all[3].Details), "fs/new")

	report, err := records.Verify(dir, "", nil)
	require.NoError(t, err)
	require.Equal(t, records.Report{First: 1, Last: 9, Anchored: 9}, report)
	for name, q := range map[string]records.Query{"server": {Server: "git", Kinds: []records.Kind{records.KindCall}}, "tool": {Tool: "push"},
		"outcome": {Outcome: mcpvisor.OutcomeUnknown}, "principal": {Principal: "bob"}} {
		found := read(t, dir, q)
		require.Len(t, found, 1, name)
		require.Equal(t, "push", found[0].Target, name)
		require.Equal(t, time.Second, found[0].Took)
	}
	tasks := filepath.Join(t.TempDir(), "tasks")
	w = open(t, tasks, records.Options{})
	task := call("git", "push", "")
	task.Task, task.Principal, task.Began = "t1", "ann", time.Now().Add(-time.Minute)
	w.Call(task)
	end := monitor.EndedCall{CallRecord: monitor.CallRecord{Server: "git", Method: "tasks/result", Kind: mcpvisor.ErrRPC}, Task: "t1"}
	w.Call(end)
	w.Call(end)     // the caller asks again
	end.Task = "t2" // of another run
	w.Call(end)
	end.Target, end.Began, end.Took = "pull", time.Now(), time.Second // with a key
	w.Call(end)
	w.Call(end) // another handle
	require.NoError(t, w.Close())
	both := read(t, tasks, records.Query{Tool: "push"})
	require.Len(t, both, 2)
	require.Contains(t, both[0].Text, "continues as a task")
	require.GreaterOrEqual(t, both[1].Took, time.Minute)
	require.Equal(t, []any{"ann", "host 1", mcpvisor.ErrRPC}, []any{both[1].Principal, both[1].Client, both[1].ErrorKind})
	resumed := read(t, tasks, records.Query{Tool: "pull"})
	require.Len(t, resumed, 1)
	require.Equal(t, time.Second, resumed[0].Took)
	require.Len(t, read(t, tasks, records.Query{Kinds: []records.Kind{records.KindCall}}), 3)
	require.Empty(t, read(t, dir, records.Query{Since: time.Now().Add(time.Hour)}))
	require.Len(t, read(t, dir, records.Query{Client: "host 1"}), 2)
	found := read(t, dir, records.Query{Text: "IT Crashed", MaxArguments: 1})
	require.Len(t, found, 1)
	require.Nil(t, found[0].Arguments)
	require.Equal(t, 2, found[0].ArgumentsBytes)
	require.Len(t, read(t, dir, records.Query{Text: "crashed git/push"}), 1, "words")
	for _, text := range []string{"it crashed often", "tookNs", "hash"} {
		require.Empty(t, read(t, dir, records.Query{Text: text}), text)
	}
	stopped := errors.New("stopped")
	require.ErrorIs(t, records.Read(dir, records.Query{Last: 1, Check: func() error { return stopped }}, nil), stopped)
	require.Len(t, read(t, dir, records.Query{Client: "host"}), 2, "of any version")
	require.Empty(t, read(t, dir, records.Query{Client: "hos"}))
	last := read(t, dir, records.Query{Last: 3})
	require.Len(t, last, 3)
	require.Equal(t, records.KindEnd, last[2].Kind)
}

// Whatever is done to a line, Verify names it.
func TestVerify_names_the_line(t *testing.T) {
	dir, file := written(t, 20, records.Options{})
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines = lines[:len(lines)-1]
	damaged := func(all [][]byte, line int, what string) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, bytes.Join(all, nil), 0o600))
		_, err := records.Verify(dir, "", nil)
		var damage *records.DamageError
		require.ErrorAs(t, err, &damage, what)
		require.Equal(t, file, damage.Path)
		require.Equal(t, line, damage.Line, "%s: %v", what, err)
	}
	replaced := func(i int, with ...[]byte) [][]byte {
		return append(append(append([][]byte(nil), lines[:i]...), with...), lines[i+1:]...)
	}
	for i, line := range lines {
		for at := range len(line) - 1 {
			flipped := bytes.Clone(line)
			if flipped[at] ^= 1; flipped[at] == '\n' {
				continue // it is two lines
			}
			damaged(replaced(i, flipped), i+1, fmt.Sprintf("bit %d of line %d", at, i+1))
		}
		damaged(replaced(i), i+1, "drop")
		damaged(replaced(i, line, line), i+2, "insert")
		damaged(lines[:i], i+1, "truncate")
		damaged(append(lines[:i:i], line[:len(line)/2]), i+1, "truncate in the line")
		if i > 0 {
			damaged(append(append(lines[:i-1:i-1], line, lines[i-1]), lines[i+1:]...), i, "swap")
		}
	}
	require.NoError(t, os.WriteFile(file, text, 0o600))
	_, err = records.Verify(dir, "", nil)
	require.NoError(t, err)
}

// A chain that was made again does not fit the anchor, and an anchor that was made again does not fit the key.
func TestVerify_other_chain(t *testing.T) {
	key := []byte("0123456789abcdef")
	dir, _ := written(t, 5, records.Options{Key: key})
	other, _ := written(t, 9, records.Options{})
	_, err := records.Verify(dir, records.AnchorPath(dir), key)
	require.NoError(t, err)
	_, err = records.Verify(dir, "", nil)
	require.ErrorContains(t, err, "give the key")
	_, err = records.Verify(dir, "", []byte("another key of 16"))
	require.ErrorContains(t, err, "not written with this key")
	_, err = records.Verify(other, records.AnchorPath(other), key)
	require.ErrorContains(t, err, "not written with this key")
	_, err = records.Verify(other, records.AnchorPath(dir), key)
	require.ErrorContains(t, err, "written again")
	_, err = records.Open(other, records.Options{Anchor: records.AnchorPath(dir), Key: key})
	require.ErrorContains(t, err, "written again")
	require.NoError(t, os.Remove(records.AnchorPath(other)))
	_, err = records.Open(other, records.Options{})
	require.ErrorContains(t, err, "no anchor")
}

// A process that is killed at any byte loses at most what came after the anchor, and the next one continues.
func TestOpen_after_a_kill(t *testing.T) {
	dir, file := written(t, 4, records.Options{})
	anchor, err := os.ReadFile(records.AnchorPath(dir))
	require.NoError(t, err)
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	anchored := len(whole)
	w := open(t, dir, records.Options{})
	w.Call(call("fs", "late", ""))
	require.NoError(t, w.Close())
	later, err := os.ReadFile(file)
	require.NoError(t, err)
	for at := anchored; at <= len(later); at++ {
		require.NoError(t, os.WriteFile(file, later[:at], 0o600))
		require.NoError(t, os.WriteFile(records.AnchorPath(dir), anchor, 0o600))
		_, err := records.Verify(dir, "", nil)
		require.NoError(t, err, at)
		require.NoError(t, open(t, dir, records.Options{}).Close())
		report, err := records.Verify(dir, "", nil)
		require.NoError(t, err, at)
		require.False(t, report.Torn)
		require.Len(t, read(t, dir, records.Query{Tool: "t0"}), 2)
		repairs := read(t, dir, records.Query{Kinds: []records.Kind{records.KindRepair}})
		if last := bytes.LastIndexByte(later[:at], '\n') + 1; last == at {
			require.Empty(t, repairs, at)
		} else {
			require.Len(t, repairs, 1, at)
			require.Equal(t, uint64(at-last), repairs[0].Lost)
		}
	}
	for at := range anchored { // what the anchor covers cannot be lost: a damage, and nothing is changed
		require.NoError(t, os.WriteFile(file, whole[:at], 0o600))
		require.NoError(t, os.WriteFile(records.AnchorPath(dir), anchor, 0o600))
		_, err := records.Open(dir, records.Options{})
		var damage *records.DamageError
		require.ErrorAs(t, err, &damage, at)
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Len(t, got, at)
	}
}

// A kill before the first anchor, or in a file that was just begun.
func TestOpen_after_a_kill_at_a_file_begin(t *testing.T) {
	dir, file := written(t, 1, records.Options{})
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	first := bytes.IndexByte(text, '\n') + 1
	for at := range first + 1 {
		require.NoError(t, os.WriteFile(file, text[:at], 0o600))
		require.NoError(t, os.RemoveAll(records.AnchorPath(dir)))
		require.NoError(t, open(t, dir, records.Options{}).Close())
		_, err = records.Verify(dir, "", nil)
		require.NoError(t, err)
	}
	report, err := records.Verify(dir, "", nil)
	require.NoError(t, err)
	begun := filepath.Join(dir, fmt.Sprintf("records-%020d.jsonl", report.Last+1))
	require.NoError(t, os.WriteFile(begun, []byte(`{"seq`), 0o600))
	require.NoError(t, open(t, dir, records.Options{}).Close())
	require.NoFileExists(t, begun)
	require.Len(t, read(t, dir, records.Query{Kinds: []records.Kind{records.KindRepair}}), 1)
}

// fill adds calls with long texts as arguments until the directory has more than n bytes.
func fill(w *records.Writer, n int64) (added int) {
	long := `{"x":"` + strings.Repeat("x", 900<<10) + `"}`
	for w.Stats().Bytes < n && added < 1000 {
		w.Call(call("fs", "fill", long))
		added++
	}
	return added
}

const bound = 16 << 20

func bytesOf(t *testing.T, dir string) (n int64) {
	t.Helper()
	for _, file := range files(t, dir) {
		info, err := os.Stat(file)
		require.NoError(t, err)
		n += info.Size()
	}
	return n
}

// The oldest file makes room, and the rest is still a chain.
func TestWriter_rotates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	o := records.Options{Arguments: records.ArgumentsWhole, MaxBytes: bound}
	long := `{"x":"` + strings.Repeat("x", 900<<10) + `"}`
	for range 2 {
		w := open(t, dir, o)
		for range 20 {
			next := w.Stats().Written + 1
			w.Call(call("fs", "fill", long))
			for w.Stats().Written < next {
				runtime.Gosched()
			}
		}
		require.NoError(t, w.Close())
		require.LessOrEqual(t, bytesOf(t, dir), int64(bound))
	}
	report, err := records.Verify(dir, "", nil)
	require.NoError(t, err)
	require.Greater(t, report.First, uint64(1))
	all := files(t, dir)
	require.Greater(t, len(all), 4)
	for _, remove := range []string{all[0], all[2], all[len(all)-1]} {
		require.NoError(t, os.Rename(remove, remove+".away"))
		_, err = records.Verify(dir, "", nil)
		require.Error(t, err, remove)
		require.NoError(t, os.Rename(remove+".away", remove))
	}
}

// A file that a crash has left without a line is begun again.
func TestOpen_empty_file(t *testing.T) {
	dir, _ := written(t, 3, records.Options{})
	before, err := records.Verify(dir, "", nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("records-%020d.jsonl", before.Last+1)), nil, 0o600))
	_, err = records.Verify(dir, "", nil)
	require.NoError(t, err)
	require.NoError(t, open(t, dir, records.Options{}).Close())
	after, err := records.Verify(dir, "", nil)
	require.NoError(t, err)
	require.Equal(t, before.Last+2, after.Last)
}

// At the bound new records are dropped and counted, and the last line says so.
func TestWriter_drops(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	w := open(t, dir, records.Options{Arguments: records.ArgumentsWhole, MaxBytes: bound, WhenFull: records.FullDrop})
	added := fill(w, bound+1)
	require.NoError(t, w.Close())
	require.LessOrEqual(t, bytesOf(t, dir), int64(bound))
	kept := read(t, dir, records.Query{Kinds: []records.Kind{records.KindCall}})
	report, err := records.Verify(dir, "", nil)
	require.NoError(t, err)
	require.Equal(t, added, len(kept)+int(report.Lost))
	require.Equal(t, report.Lost, w.Stats().Dropped)
	require.NotZero(t, report.Lost)
	require.Equal(t, records.KindEnd, read(t, dir, records.Query{Last: 1})[0].Kind)
}

// At the bound callers wait, until the writer is closed.
func TestWriter_blocks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	w := open(t, dir, records.Options{Arguments: records.ArgumentsWhole, MaxBytes: bound, WhenFull: records.FullBlock})
	ended := make(chan int)
	go func() { ended <- fill(w, bound+1) }()
	require.Eventually(t, func() bool { return strings.Contains(w.Stats().Problem, "reached their bound") }, 2*time.Minute, 10*time.Millisecond)
	select {
	case <-ended:
		t.Fatal("the caller did not wait")
	default:
	}
	require.ErrorContains(t, w.Close(), "lost")
	<-ended
	require.Zero(t, w.Stats().Dropped)
	_, err := records.Verify(dir, "", nil)
	require.NoError(t, err)
}

// A secret is in no record, however it is written.
func TestWriter_masks(t *testing.T) {
	planted := []string{"hunter2hunter2", "first line\nsecond line", "84712936", `quo"ted<secret>`}
	var list secret.List
	list.Add(planted...)
	replace := list.Replacer().Replace
	mask := func(server string) func(string) string {
		if server == "fs" {
			return replace
		}
		return nil
	}
	key := []byte("0123456789abcdef")
	for _, arguments := range []records.Arguments{records.ArgumentsNone, records.ArgumentsDigest, records.ArgumentsWhole} {
		dir := filepath.Join(t.TempDir(), "records")
		w := open(t, dir, records.Options{Mask: mask, Key: key, Arguments: arguments})
		c := call("fs", "t", `{"a":"hunter2hunter2","b":[1.84712936,84712936123],"\u0068unter2hunter2":"first line\u000asecond line","d":"quo\"ted\u003csecret>",
			"e":"\ud800 hunter\u0032hunter2"}`)
		c.Error, c.Client, c.Target = "it has 84712936 in it", "hunter2hunter2", "x"+strings.Repeat("y", 500)+"hunter2hunter2"
		w.Call(c)
		w.Event(mcpvisor.Event{Kind: mcpvisor.EventRetry, Server: "fs", Attempt: 84712936, URI: planted[1], Tool: planted[3]})
		require.NoError(t, w.Close())
		text, err := os.ReadFile(files(t, dir)[0])
		require.NoError(t, err)
		for _, form := range append(list.Values(), "second line", `hunter\u0032`) {
			require.NotContains(t, string(text), form)
		}
		require.Contains(t, string(text), secret.Mask)
		_, err = records.Verify(dir, "", key)
		require.NoError(t, err)
		kept := read(t, dir, records.Query{Kinds: []records.Kind{records.KindCall}})[0]
		require.Equal(t, arguments == records.ArgumentsWhole, kept.Arguments != nil)
		require.Equal(t, arguments == records.ArgumentsDigest, strings.HasPrefix(kept.ArgumentsDigest, "hmac-sha256:"))
	}
}

// Many callers at a time, while others read and verify.
func TestWriter_concurrent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	w := open(t, dir, records.Options{WhenFull: records.FullBlock})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 500 {
				w.Call(call("fs", fmt.Sprint("t", i), `{}`))
				if j%100 == 0 {
					_, err := records.Verify(dir, "", nil)
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, w.Close())
	w.Call(call("fs", "t0", `{}`)) // after the end
	for i := range 8 {
		require.Len(t, read(t, dir, records.Query{Tool: fmt.Sprint("t", i)}), 500)
	}
	report, err := records.Verify(dir, "", nil)
	require.NoError(t, err)
	require.Equal(t, report.Last, report.Anchored)
}

// The anchor follows without a further record.
func TestWriter_anchors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "records")
	w := open(t, dir, records.Options{})
	defer func() { require.NoError(t, w.Close()) }()
	w.Call(call("fs", "t", ""))
	require.Eventually(t, func() bool {
		report, err := records.Verify(dir, "", nil)
		return err == nil && report.Anchored >= 3 && report.Anchored == report.Last
	}, 30*time.Second, 10*time.Millisecond)
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]records.Options{
		"at least 16":           {Key: []byte("short")},
		"none, digest or whole": {Arguments: "some"},
		"need a key":            {Arguments: records.ArgumentsDigest},
		"rotate, drop or block": {WhenFull: "wait"},
		"use at least 16777216": {MaxBytes: 1},
	} {
		_, err := records.Open(filepath.Join(t.TempDir(), "records"), o)
		require.ErrorContains(t, err, want)
	}
}
