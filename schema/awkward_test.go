package schema_test

import (
	"strings"

	"github.com/mcpvisor/mcpvisor"
)

// awkward are tools whose input schemas providers reject as they are.
func awkward() (tools []mcpvisor.Tool) {
	for _, a := range [][2]string{
		{"no-schema", ``},
		{"null", `null`},
		{"true", `true`},
		{"not-json", `{"type":`},
		{"a-list", `[]`},
		{"empty", `{}`},
		{"no-properties", `{"type":"object"}`},
		{"type-array", `{"type":"array","items":{"type":"string"}}`},
		{"type-or-null", `{"type":["object","null"],"properties":{"a":{"type":"string"}}}`},
		{"properties-list", `{"type":"object","properties":[],"required":[]}`},
		{"meta", `{"$schema":"http://json-schema.org/draft-07/schema#","$id":"x","$comment":"c","type":"object","properties":{"$schema":{"type":"string"}}}`},
		{"ref", `{"type":"object","properties":{"p":{"$ref":"#/$defs/P","description":"outer"},"q":{"$ref":"#/definitions/a~1b%20c"}},"$defs":{"P":{"type":"object","description":"inner","properties":{"x":{"type":"number"}},"required":["x"]}},"definitions":{"a/b c":{"type":"string"}}}`},
		{"ref-root", `{"$ref":"#/$defs/Args","$defs":{"Args":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}}`},
		{"ref-missing", `{"type":"object","properties":{"p":{"$ref":"#/$defs/none"},"f":{"$ref":"file:///etc/passwd"},"h":{"$ref":"http://127.0.0.1/x.json"},"i":{"$ref":"other.json#/a"},"d":{"$dynamicRef":"#node"}}}`},
		{"ref-recursive", `{"type":"object","properties":{"tree":{"$ref":"#/$defs/node"}},"$defs":{"node":{"type":"object","title":"Node","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}}}}}`},
		{"ref-to-itself", `{"type":"object","properties":{"a":{"$ref":"#/properties/a"},"b":{"$ref":"#/$defs/c"},"r":{"$ref":"#"}},"$defs":{"c":{"$ref":"#/$defs/d"},"d":{"$ref":"#/$defs/c"}}}`},
		{"all-of", `{"type":"object","properties":{"v":{"allOf":[{"type":["string","integer"],"minLength":1},{"type":"string","minLength":3,"maxLength":9,"enum":["abc","x"]}],"enum":["abc","abcd"],"description":"outer"},"o":{"allOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"a":{"maxLength":3},"b":{"type":"number"}},"required":["b","a"]}]}}}`},
		{"root-any-of-required", `{"type":"object","properties":{"route":{"type":"string"},"file":{"type":"string"}},"anyOf":[{"required":["route"]},{"required":["file"]}]}`},
		{"root-one-of-objects", `{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"string"}},"required":["kind","x"]},{"type":"object","properties":{"kind":{"const":"b"},"x":{"type":"number"}},"required":["kind"]}]}`},
		{"root-all-of-if", `{"type":"object","properties":{"mode":{"type":"string"}},"allOf":[{"if":{"properties":{"mode":{"const":"big"}}},"then":{"properties":{"size":{"type":"integer"}},"required":["size"]}}],"not":{"required":["z"]}}`},
		{"boolean-schemas", `{"type":"object","properties":{"any":true,"none":false,"list":{"type":"array","items":true},"alt":{"anyOf":[true,false,{"type":"string"}]}},"additionalProperties":false}`},
		{"draft-4", `{"type":"object","properties":{"n":{"type":"number","minimum":0,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false},"t":{"type":"array","items":[{"type":"string"},{"type":"number"}],"additionalItems":false},"r":{"type":"string","required":true}},"dependencies":{"n":["t"]}}`},
		{"openapi", `{"type":"object","properties":{"s":{"type":"string","nullable":true,"enum":["a","b"],"example":"a"},"t":{"$ref":"#/$defs/T","nullable":true}},"$defs":{"T":{"type":"integer"}}}`},
		{"types", `{"type":"object","properties":{"a":{"type":"int"},"b":{"type":"any"},"c":{"type":["string","String","null"]},"d":{"type":[]},"e":{"type":7},"f":{"type":"array"},"g":{"type":["array","null"]},"h":{"type":["object","string"]}}}`},
		{"wrong-forms", `{"type":"object","description":5,"properties":{"a":{"type":"string","minLength":"3","maxLength":-1,"pattern":7,"format":{},"enum":[],"title":null},"b":7,"c":null,"d":{"type":"number","minimum":"0","multipleOf":0},"e":{"anyOf":{}},"f":{"required":"x","properties":[],"items":3}},"required":["a","a",5]}`},
		{"enums", `{"type":"object","properties":{"n":{"type":"integer","enum":[1,2,2]},"b":{"type":"boolean","enum":[true]},"m":{"enum":["a",1,null]},"z":{"type":"string","enum":["a",null]},"u":{"enum":["x","y"]},"o":{"enum":[{"a":1},{"a":1}]},"nul":{"enum":[null]},"k":{"const":"only"},"kn":{"const":null}},"required":["n"]}`},
		{"required-undefined", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a","ghost"]}`},
		{"formats", `{"type":"object","properties":{"u":{"type":"string","format":"uri"},"d":{"type":"string","format":"date-time"},"i":{"type":"integer","format":"int64","minimum":-9007199254740991,"maximum":9007199254740991},"e":{"type":"number","exclusiveMinimum":0}}}`},
		{"patterns", `{"type":"object","properties":{"ok":{"type":"string","pattern":"^[a-z0-9_.-]+\\d{2,}$"},"look":{"type":"string","pattern":"^(?!x)"},"uni":{"type":"string","pattern":"^\\p{L}+$"},"named":{"type":"string","pattern":"(?<y>\\d{4})"},"bad":{"type":"string","pattern":"["},"end":{"type":"string","pattern":"a\\"}},"patternProperties":{"^\\p{L}":{"type":"string"},"^x-":{"type":"number"}}}`},
		{"keys", `{"type":"object","properties":{"ok.key-1":{"type":"string"},"has space":{"type":"string"},"@type":{"type":"string"},"":{"type":"string"}},"required":["@type","ok.key-1"]}`},
		{"unknown-keywords", `{"type":"object","properties":{"a":{"type":"string","x-order":1,"optional":true,"$vendor":2,"default":{"deep":[1]}}}}`},
		{"types-that-are-objects", `{"type":"object","properties":{"a":{"allOf":[{"type":{}},{"type":[{}]},{"type":"string"}],"nullable":"yes"}},"oneOf":[{"properties":{"k":{"const":1,"type":["integer","null"]}}},{"properties":{"k":{"const":2,"type":["integer","null"]}}}]}`},
		{"tuple", `{"type":"object","properties":{"p":{"type":"array","prefixItems":[{"type":"number"},{"type":"number"}],"minItems":2,"maxItems":2}}}`},
		{"nested-union", `{"type":"object","properties":{"v":{"oneOf":[{"type":"string"},{"type":"object","properties":{"id":{"const":5}},"additionalProperties":{"type":"string"}}],"anyOf":[{"minLength":1}]},"w":{"oneOf":[{"type":"string"},{"type":"null"}]}}}`},
	} {
		var input any = a[1]
		if a[1] == "" {
			input = nil
		}
		tools = append(tools, tool("odd", a[0], "", input))
	}
	deep := strings.Repeat(`{"type":"object","properties":{"d":`, 100) + `{"type":"string"}` + strings.Repeat(`}}`, 100)
	return append(tools, tool("odd", "deep", "", deep))
}
