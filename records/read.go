package records

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// Query selects records. Zero fields select all.
type Query struct {
	// Since selects records of that time and later ones.
	Since time.Time
	// Kinds are the kinds to select; nil: all but KindSegment.
	Kinds []Kind
	// Server, Tool, Client and Principal select records that have just that value. Tool is the server's own name of the tool.
	// Client selects those of every version of the client, too: "editor" also selects "editor 2".
	Server, Tool, Client, Principal string
	// Text selects records that have all its words in their names, kinds, texts or arguments, in letters of either case.
	Text string
	// Check is asked before each line; its error ends Read. nil: none.
	Check func() error
	// Events selects events of these kinds; nil: all.
	Events []mcpvisor.EventKind
	// Outcome selects calls of that outcome.
	Outcome mcpvisor.Outcome
	// MaxArguments is the length of the longest arguments, in bytes: of longer ones only the length is returned. 0: no bound.
	MaxArguments int
	// Last selects at most that many, the last ones; 0: all. They are held in memory.
	Last int
}

// matches reports whether a record is selected.
func (q *Query) matches(r *Record) bool {
	kind := r.Kind != KindSegment
	if q.Kinds != nil {
		kind = slices.Contains(q.Kinds, r.Kind)
	}
	return kind && (q.Events == nil || slices.Contains(q.Events, r.Event)) && !r.Time.Before(q.Since) && (q.Server == "" || q.Server == r.Server) && (q.Tool == "" || q.Tool == r.Target && (r.Method == "tools/call" || r.Method == "tasks/result")) &&
		(q.Client == "" || q.Client == r.Client || strings.HasPrefix(r.Client, q.Client+" ")) && (q.Principal == "" || q.Principal == r.Principal) && (q.Outcome == "" || q.Outcome == r.Outcome)
}

// needles are texts of which each selected line has all: most lines are not decoded.
func (q *Query) needles() (all [][]byte) {
	for name, value := range map[string]string{"server": q.Server, "target": q.Tool, "client": q.Client, "principal": q.Principal, "outcome": string(q.Outcome)} {
		if value == "" {
			continue
		}
		text, _ := json.Marshal(value) // a string always marshals
		if name == "client" {          // its version may follow
			text = text[:len(text)-1]
		}
		all = append(all, append([]byte(`"`+name+`":`), text...))
	}
	return all
}

// Read calls f with the selected records, the oldest first, until it fails, and returns its error. Lines that are no records
// are left out: [Verify] names them. Read can run while a writer appends, and needs memory for one record, or Query.Last.
func Read(dir string, q Query, f func(Record) error) error {
	all, err := segments(dir)
	if err != nil {
		return err
	}
	for len(all) > 0 && !q.Since.IsZero() { // the last record of a file is not later than its last change
		info, err := os.Stat(all[0].path)
		if err == nil && !info.ModTime().Before(q.Since) {
			break
		}
		all = all[1:]
	}
	needles := q.needles()
	if q.Last <= 0 {
		for _, s := range all {
			if err := q.readFile(s, needles, f); err != nil {
				return err
			}
		}
		return nil
	}
	var found []Record // of later files
	for i := len(all) - 1; i >= 0 && len(found) < q.Last; i-- {
		want, next := q.Last-len(found), 0
		ring := []Record(nil)
		if err := q.readFile(all[i], needles, func(r Record) error {
			if len(ring) < want {
				ring = append(ring, r)
				return nil
			}
			ring[next], next = r, (next+1)%want
			return nil
		}); err != nil {
			return err
		}
		found = append(append(append([]Record(nil), ring[next:]...), ring[:next]...), found...)
	}
	for _, r := range found {
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// readFile calls f with the selected records of a file.
func (q *Query) readFile(s segment, needles [][]byte, f func(Record) error) error {
	words := strings.Fields(strings.ToLower(q.Text))
	err := eachLine(s.path, func(line []byte) error {
		for _, needle := range needles {
			if !bytes.Contains(line, needle) {
				return nil
			}
		}
		if q.Check != nil {
			if err := q.Check(); err != nil {
				return err
			}
		}
		var r Record
		if content, _, err := splitLine(line); err == nil && unmarshal(content, &r) == nil && q.matches(&r) && hasWords(&r, words) {
			if n := len(r.Arguments); q.MaxArguments > 0 && n > q.MaxArguments {
				r.Arguments, r.ArgumentsBytes = nil, n
			}
			return f(r)
		}
		return nil // damaged, which Verify finds, or another one
	})
	if errors.Is(err, errTorn) || errors.Is(err, errLongLine) || errors.Is(err, os.ErrNotExist) { // being written, damaged, or deleted just now
		return nil
	}
	return err
}

// hasWords reports whether a record has all words.
func hasWords(r *Record, words []string) bool {
	if len(words) == 0 {
		return true
	}
	text := strings.ToLower(strings.Join([]string{r.Server + "/" + r.Target, r.Method, r.Client, r.Principal, string(r.Outcome), string(r.ErrorKind), string(r.Kind), string(r.Event), r.Text, string(r.Arguments)}, "\n"))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}
