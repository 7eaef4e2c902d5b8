package records

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Report says what [Verify] has found in order.
type Report struct {
	// First and Last are the numbers of the first and the last record.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Anchored is the number of the last record that the anchor covers: later ones could be changed without notice.
	Anchored uint64 `json:"anchored"`
	// Lost counts the records that were dropped, as the records say.
	Lost uint64 `json:"lost,omitempty"`
	// Torn: the last line is not whole. It is being written, or a crash has left it.
	Torn bool `json:"torn,omitempty"`
}

// DamageError is a line that is not as it was written, or is missing.
type DamageError struct {
	// Path is the file, and Line the number of the line, from 1.
	Path string
	Line int
	// Reason says what is wrong.
	Reason error
}

// Error names file and line, and says what is wrong.
func (e *DamageError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Reason) }

// Unwrap returns Reason.
func (e *DamageError) Unwrap() error { return e.Reason }

// Verify checks all records of a directory against each other and against the anchor. anchorPath may be empty, for
// [AnchorPath]. key is that of the writer; nil if it has none. It can run while a writer appends. A *[DamageError] names the
// first line that is not as it was written; other errors say that nothing could be read or compared.
func Verify(dir, anchorPath string, key []byte) (Report, error) {
	if anchorPath == "" {
		anchorPath = AnchorPath(dir)
	}
	for {
		a, err := readAnchor(anchorPath, key) // before the records, which only grow
		if err != nil {
			return Report{}, err
		}
		report, err := verify(dir, a)
		if now, _ := readAnchor(anchorPath, key); err == nil || now.First <= a.First {
			return report, err
		} // the writer has deleted the oldest file meanwhile
	}
}

// verify compares the records with an anchor.
func verify(dir string, a anchor) (Report, error) {
	all, err := segments(dir)
	if err != nil {
		return Report{}, err
	}
	for len(all) > 0 && all[0].first < a.First { // the writer is about to delete it
		all = all[1:]
	}
	report := Report{Anchored: a.Seq}
	if len(all) == 0 || all[0].first != a.First {
		return report, &DamageError{dir, 0, fmt.Errorf("the file %s, with which the records begin by the anchor, is missing", segmentName(a.First))}
	}
	report.First = a.First
	var c chain
	if report.Torn, err = c.all(all, a, func(r Record, _ hash) error {
		if r.Kind == KindGap {
			report.Lost += r.Lost
		}
		return nil
	}); err != nil {
		return report, err
	}
	report.Last = c.seq
	return report, nil
}

// all checks files, from the first one that the anchor knows or its last one on. A damaged line is a *DamageError. torn says
// that the end, behind the anchor, is not a whole line.
func (c *chain) all(files []segment, a anchor, f func(Record, hash) error) (torn bool, err error) {
	for i, s := range files {
		err := c.walk(s, i == 0, func(r Record, h hash) error {
			if r.Seq == a.Seq && h.String() != a.Hash {
				return errors.New("the anchor has another hash of it: the records were written again")
			}
			return f(r, h)
		})
		last := i == len(files)-1
		switch {
		case last && errors.Is(err, errTorn) && c.seq >= a.Seq:
			return true, nil
		case err != nil:
			line := c.line + 1
			if c.seq == a.Seq && c.line > 0 && !errors.Is(err, errTorn) && c.hash.String() != a.Hash {
				line = c.line
			}
			return false, &DamageError{s.path, line, err}
		}
	}
	if c.seq < a.Seq {
		return false, &DamageError{files[len(files)-1].path, c.line + 1,
			fmt.Errorf("the records end with number %d, and the anchor knows %d: the end was cut off", c.seq, a.Seq)}
	}
	return false, nil
}

// unmarshal reads the content of a line.
func unmarshal(content []byte, r *Record) error {
	if err := json.Unmarshal(content, r); err != nil {
		return fmt.Errorf("it is not JSON of a record: %w", err)
	}
	return nil
}
