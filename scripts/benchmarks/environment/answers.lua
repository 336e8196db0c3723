-- Answers calls in nginx as a workspace server does: with the id of the call, and a result whose size and form
-- the name of the tool states ("10KB.sse"). A header field, or a comment of the event, announces the result trim
-- (`lm_tools_bridge/protocol/internal/result_trim.py`), except for tools such as "10KB.sse-read".

local BEGIN = '{"jsonrpc":"2.0","id":'
local TYPE = '"resultType":"complete",'
local META = ',"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench","version":"1"}}'

local function around(size)
  local content = '"content":[{"type":"text","text":"' .. string.rep("x", size) .. '"}]'
  return ',"result":{' .. TYPE .. content .. META .. "}}"
end

local trim = #TYPE .. " " .. #META
local COMMENT = ": Lm-Tools-Bridge-Trim: " .. trim .. "\n"
local DATA = "event: message\ndata: "

local known = {}
for _, one in ipairs(results) do
  local name, behind = one[1], around(one[2])
  local json = { before = BEGIN, behind = behind, size = #BEGIN + #behind }
  known[name .. ".json-read"] = json
  known[name .. ".json"] = { before = json.before, behind = behind, size = json.size, trim = trim }
  known[name .. ".sse-read"] = { before = DATA .. BEGIN, behind = behind .. "\n\n" }
  known[name .. ".sse"] = { before = COMMENT .. DATA .. BEGIN, behind = behind .. "\n\n" }
end

-- Lua gives bodies that differ only in the id the same hash: with fewer of them in memory, lookups are faster.
collectgarbage("setpause", 102)

local function answer()
  ngx.req.read_body()
  local id = string.match(ngx.req.get_body_data(), '"id":(%d+)')
  local said, fields = known[ngx.var.http_mcp_name], ngx.header
  if said.size then
    fields["Content-Type"] = "application/json"
    fields["Lm-Tools-Bridge-Trim"] = said.trim
    fields["Content-Length"] = said.size + #id
  else
    fields["Content-Type"] = "text/event-stream"
    fields["X-Accel-Buffering"] = "no"
  end
  ngx.print({ said.before, id, said.behind })
end

return { answer = answer }
