package house

import (
	"go/scanner"
	"go/token"
)

// eachToken visits the identifiers, strings and comments of a Go file.
func eachToken(s source, visit func(line int, tok token.Token, text string)) {
	var sc scanner.Scanner
	file := token.NewFileSet().AddFile(s.path, -1, len(s.text))
	sc.Init(file, s.text, nil, scanner.ScanComments)
	for {
		pos, tok, lit := sc.Scan()
		switch tok {
		case token.EOF:
			return
		case token.IDENT, token.STRING, token.COMMENT:
			visit(file.Line(pos), tok, lit)
		default:
		}
	}
}
