package jsonscan

// bracketStack remembers for each open bracket whether it is that of an object, one
// bit each. The first 128 levels need no memory.
type bracketStack struct {
	depth    int
	inline   [2]uint64
	overflow []uint64
}

// push adds an open bracket.
func (n *bracketStack) push(object bool) {
	n.depth++
	w, bit := n.word(), uint64(1)<<(n.depth&63)
	if object {
		*w |= bit
	} else {
		*w &^= bit
	}
}

// inObject reports whether the innermost open bracket is that of an object.
func (n *bracketStack) inObject() bool { return *n.word()&(1<<(n.depth&63)) != 0 }

// word returns the word that holds the bit of the innermost open bracket.
func (n *bracketStack) word() *uint64 {
	i := n.depth >> 6
	if i < len(n.inline) {
		return &n.inline[i]
	}
	i -= len(n.inline)
	for i >= len(n.overflow) {
		n.overflow = append(n.overflow, 0)
	}
	return &n.overflow[i]
}
