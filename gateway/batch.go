package gateway

import (
	"io"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// splitBatches returns a transport that receives the messages of a JSON-RPC batch one by one.
// Only version 2025-03-26 has batches, and lets their answers come alone; newer versions have
// none. The go-sdk would hold all answers of a batch until the last one is there, and neither
// a canceled request nor a notification is answered. It knows the version only in its own
// sessions, so it takes batches here whatever the version is.
func splitBatches(peer mcp.Transport) mcp.Transport {
	switch peer := peer.(type) {
	case *mcp.IOTransport:
		split := *peer
		split.Reader = &batchSplitter{stream: peer.Reader}
		return &split
	case *mcp.StdioTransport:
		return &mcp.IOTransport{Reader: &batchSplitter{stream: os.Stdin}, Writer: openWriter{os.Stdout}, MaxLineLength: peer.MaxLineLength}
	case *mcp.LoggingTransport:
		return &mcp.LoggingTransport{Transport: splitBatches(peer.Transport), Writer: peer.Writer}
	}
	return peer
}

// openWriter is a writer that stays open: standard output.
type openWriter struct{ io.Writer }

func (openWriter) Close() error { return nil }

// batchSplitter reads a stream of JSON. The brackets, commas and spaces outside of objects are
// read as newlines, which leaves the objects of a batch as messages of their own. The length of
// the stream stays, and what is not valid JSON stays invalid within objects.
type batchSplitter struct {
	stream  io.ReadCloser
	depth   int  // of objects and lists, counted from an object
	inText  bool // between quotation marks
	escaped bool // after a backslash in a text
}

func (s *batchSplitter) Read(p []byte) (int, error) {
	n, err := s.stream.Read(p)
	s.split(p[:n])
	return n, err
}

func (s *batchSplitter) Close() error { return s.stream.Close() }

func (s *batchSplitter) split(text []byte) {
	for i, b := range text {
		switch {
		case s.escaped:
			s.escaped = false
		case s.inText:
			s.escaped = b == '\\'
			s.inText = b != '"'
		case b == '"':
			s.inText = true
		case b == '{', b == '[' && s.depth > 0:
			s.depth++
		case s.depth > 0:
			if b == '}' || b == ']' {
				s.depth--
			}
		case strings.IndexByte("[], \t", b) >= 0:
			text[i] = '\n'
		}
	}
}
