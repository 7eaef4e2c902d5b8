package records

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// segment is one file of records. Its name has the number of its first record.
type segment struct {
	first uint64
	path  string
	bytes int64
}

const (
	segmentPrefix = "records-"
	segmentSuffix = ".jsonl"
)

func segmentName(first uint64) string {
	return fmt.Sprintf("%s%020d%s", segmentPrefix, first, segmentSuffix)
}

// segments returns the files of records in a directory, the oldest first.
func segments(dir string) (all []segment, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the records: %w", err)
	}
	for _, e := range entries {
		text, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), segmentSuffix), segmentPrefix)
		first, err := strconv.ParseUint(text, 10, 64)
		if !ok || err != nil || e.Name() != segmentName(first) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, os.ErrNotExist) { // the writer has just deleted it
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the records: %w", err)
		}
		all = append(all, segment{first, filepath.Join(dir, e.Name()), info.Size()})
	}
	slices.SortFunc(all, func(a, b segment) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// errTorn is the end of a file inside a line.
var errTorn = errors.New("the file ends inside a line")

// errLongLine is a line that no writer makes.
var errLongLine = fmt.Errorf("it is longer than %d bytes", maxLineBytes)

// eachLine calls f with every whole line of a file, without its newline, until f fails. The line is valid during the call.
// The error of a last line without a newline is errTorn.
func eachLine(path string, f func(line []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the records: %w", err)
	}
	defer func() { _ = file.Close() }()
	r := bufio.NewReaderSize(file, 64<<10)
	var long []byte
	for {
		line, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if long = append(long, line...); len(long) > maxLineBytes {
				return errLongLine
			}
			continue
		case errors.Is(err, io.EOF) && len(line)+len(long) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return errTorn
		case err != nil:
			return fmt.Errorf("read the records: %w", err)
		}
		if len(long) > 0 {
			long = append(long, line...)
			line = long
		}
		if err := f(line[:len(line)-1]); err != nil {
			return err
		}
		long = long[:0]
	}
}

// chain is how far lines were read and checked.
type chain struct {
	seq     uint64 // of the last record
	hash    hash   // of the last record
	segment uint64 // first number of the last file
	end     int64  // of the last whole line in the last file
	line    int    // number of that line in the file, from 1
}

// walk checks the lines of a file after those before it, and calls f with each record; f may be nil. The error says what is
// wrong with the line after c.line. fresh: nothing before this file is known, so its first line says what it follows.
func (c *chain) walk(s segment, fresh bool, f func(Record, hash) error) error {
	c.segment, c.end, c.line = s.first, 0, 0
	return eachLine(s.path, func(line []byte) error {
		seq, previous := c.seq, c.hash
		first := c.line == 0
		if first && fresh {
			var err error
			if seq, previous, err = before(line, s); err != nil {
				return err
			}
		}
		r, h, err := check(line, seq, previous)
		switch {
		case err != nil:
			return err
		case first != (r.Kind == KindSegment):
			return errors.New("the first line of a file, and no other, is of the kind segment")
		case first && r.FileVersion != Version:
			return fmt.Errorf("it has version %d, and this program reads %d", r.FileVersion, Version)
		case first && (r.Seq != s.first || r.Previous != previous.String()):
			return errors.New("the file has the name of another, or a file before it is missing")
		}
		c.seq, c.hash, c.line, c.end = r.Seq, h, c.line+1, c.end+int64(len(line))+1
		if f != nil {
			return f(r, h)
		}
		return nil
	})
}

// before returns the number and hash that the first line of a file says are before it.
func before(line []byte, s segment) (seq uint64, previous hash, err error) {
	var r Record
	content, _, err := splitLine(line)
	if err == nil {
		err = unmarshal(content, &r)
	}
	if err == nil {
		previous, err = parseHash(r.Previous)
	}
	return s.first - 1, previous, err
}
