package jsonscan

import (
	"context"
	"errors"
	"runtime"
	"strconv"
)

// Tree is an index of JSON text: 16 bytes for each value and each name of a member, in the
// order of the text, and none of the values themselves. [Tree.Parse] fills it, and reuses its
// memory. The first value is node 0.
//
// The nodes within an object are the name and the value of each member, by turns, and those
// within an array are the items:
//
//	for name := i + 1; name < t.Next(i); name = t.Next(name + 1) { … name + 1 … }
//	for item := i + 1; item < t.Next(i); item = t.Next(item) { … }
type Tree struct {
	text  []byte
	nodes []value
}

// value is one value, or the name of a member.
type value struct {
	start, end uint32 // in the text
	next       uint32 // the node after those within this one
	escaped    bool   // a string with escapes
}

const (
	// maxTreeBytes bounds the text of a tree, so that positions fit into a node.
	maxTreeBytes = 1 << 30
	// maxTreeDepth bounds the nesting in a tree.
	maxTreeDepth = 1000
)

var (
	// ErrTooManyValues is the error of [Tree.Parse] for text with more values than wanted.
	ErrTooManyValues = errors.New("too many values")
	// ErrTooDeep is the error of [Tree.Parse] for text that is nested too deep.
	ErrTooDeep = errors.New("nested too deep")
)

// Parse makes t the tree of text, which must not change while t is used. most is how many
// nodes there may be. It fails with the cause of ctx when ctx ends.
func (t *Tree) Parse(ctx context.Context, text []byte, most int) error {
	t.text, t.nodes = text, t.nodes[:0]
	if len(text) > maxTreeBytes {
		return ErrTooManyValues
	}
	p := treeParser{Tree: t, scan: Scanner{Text: text}, ctx: ctx, most: most}
	p.scan.SkipSpace()
	err := p.value(0)
	if err == nil && !p.scan.AtEnd() {
		err = errNoValue
	}
	return err
}

// treeParser fills a tree.
type treeParser struct {
	*Tree
	scan Scanner
	ctx  context.Context
	most int
}

// add adds a node that begins at the position.
func (p *treeParser) add() (int, error) {
	i := len(p.nodes)
	switch {
	case i >= p.most:
		return 0, ErrTooManyValues
	case i%checkEvery == checkEvery-1:
		if p.ctx.Err() != nil {
			return 0, context.Cause(p.ctx)
		}
		runtime.Gosched()
	}
	p.nodes = append(p.nodes, value{start: uint32(p.scan.Pos)})
	return i, nil
}

// close ends a node at the position.
func (p *treeParser) close(i int) {
	p.nodes[i].end, p.nodes[i].next = uint32(p.scan.Pos), uint32(len(p.nodes))
}

// value adds the value at the position and what is within it.
func (p *treeParser) value(depth int) error {
	i, err := p.add()
	switch {
	case err != nil:
		return err
	case p.scan.Pos >= len(p.scan.Text):
		return errNoValue
	}
	switch c := p.scan.Text[p.scan.Pos]; c {
	case '{', '[':
		if depth == maxTreeDepth {
			return ErrTooDeep
		}
		if err := p.within(c, depth+1); err != nil {
			return err
		}
	case '"':
		_, escaped, ok := p.scan.String()
		if !ok {
			return errNoValue
		}
		p.nodes[i].escaped = escaped
	default:
		if !p.scan.scalar() {
			return errNoValue
		}
	}
	p.close(i)
	return nil
}

// within adds what is within an object or array.
func (p *treeParser) within(open byte, depth int) error {
	p.scan.Pos++
	p.scan.SkipSpace()
	if p.scan.Consume(open + 2) { // '}' is '{'+2 and ']' is '['+2
		return nil
	}
	for {
		if open == '{' {
			i, err := p.add()
			if err != nil {
				return err
			}
			_, escaped, ok := p.scan.String()
			if !ok {
				return errNoValue
			}
			p.nodes[i].escaped = escaped
			p.close(i)
			if p.scan.SkipSpace(); !p.scan.Consume(':') {
				return errNoValue
			}
			p.scan.SkipSpace()
		}
		if err := p.value(depth); err != nil {
			return err
		}
		if p.scan.SkipSpace(); p.scan.Consume(open + 2) {
			return nil
		}
		if !p.scan.Consume(',') {
			return errNoValue
		}
		p.scan.SkipSpace()
	}
}

// Reset forgets the text.
func (t *Tree) Reset() { t.text = nil }

// Next returns the node after node i and all that is within it.
func (t *Tree) Next(i int) int { return int(t.nodes[i].next) }

// Text returns the JSON text of a node.
func (t *Tree) Text(i int) []byte { return t.text[t.nodes[i].start:t.nodes[i].end] }

// First returns the first byte of a node, which tells its type: one of { [ " t f n, or the
// beginning of a number.
func (t *Tree) First(i int) byte { return t.text[t.nodes[i].start] }

// Escaped reports whether a string has escapes.
func (t *Tree) Escaped(i int) bool { return t.nodes[i].escaped }

// String returns the value of a string. It may share the memory of the text.
func (t *Tree) String(i int) string { return UnquoteShared(t.Text(i), t.nodes[i].escaped) }

// Number returns the value of a number. ok is false if float64 does not reach that far.
func (t *Tree) Number(i int) (n float64, ok bool) {
	n, err := strconv.ParseFloat(string(t.Text(i)), 64)
	return n, err == nil
}

// Cap is how many nodes t has memory for.
func (t *Tree) Cap() int { return cap(t.nodes) }
