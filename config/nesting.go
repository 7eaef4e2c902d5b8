package config

import "bytes"

// maxDepth is how deep objects and lists may be nested. A real file needs six.
const maxDepth = 100

// tooDeep finds the first bracket that is nested too deep. hujson parses
// recursively and without a bound, and a stack overflow ends the process: it
// cannot be recovered.
//
// Only strings and comments have to be distinguished from the rest. Text that is
// wrong in another way is left to the parser.
func tooDeep(data []byte) (offset int, deep bool) {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return i, true
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '/':
			i += commentLen(data[i:])
		}
	}
	return 0, false
}

// commentLen returns how many bytes of a comment follow the slash at the start
// of data.
func commentLen(data []byte) int {
	var end string
	switch {
	case bytes.HasPrefix(data, []byte("//")):
		end = "\n"
	case bytes.HasPrefix(data, []byte("/*")):
		end = "*/"
	default:
		return 0
	}
	n := bytes.Index(data[2:], []byte(end))
	if n < 0 {
		return len(data)
	}
	return 1 + n + len(end)
}
