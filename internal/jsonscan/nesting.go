package jsonscan

// nesting remembers of each open bracket whether it is an object's. The first
// levels cost no memory.
type nesting struct {
	depth int
	near  [2]uint64
	far   []uint64
}

func (n *nesting) push(object bool) {
	n.depth++
	w, bit := n.word(), uint64(1)<<(n.depth&63)
	if object {
		*w |= bit
	} else {
		*w &^= bit
	}
}

// object reports whether the innermost open bracket is an object's.
func (n *nesting) object() bool { return *n.word()&(1<<(n.depth&63)) != 0 }

func (n *nesting) word() *uint64 {
	i := n.depth >> 6
	if i < len(n.near) {
		return &n.near[i]
	}
	i -= len(n.near)
	for i >= len(n.far) {
		n.far = append(n.far, 0)
	}
	return &n.far[i]
}
