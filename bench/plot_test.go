package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestDrawings(t *testing.T) {
	withFigures(t)
	for _, d := range drawings() {
		if _, any := d.svg(); any {
			t.Errorf("%s: drawn without figures", d.file)
		}
		for _, g := range d.groups {
			for i, c := range g.clients {
				figures[key(g.section, g.row, c, g.figure)] = float64(i + 1)
			}
		}
		svg, any := d.svg()
		if !any || !strings.Contains(svg, "<title") || !strings.Contains(svg, "prefers-color-scheme: dark") {
			t.Errorf("%s: no title or no dark colours", d.file)
		}
		for r := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := r.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", d.file, err)
			}
		}
		for _, c := range d.groups[0].clients {
			if classes[c] == "" {
				t.Errorf("%s: %s has no colour", d.file, c)
			}
		}
	}
}
