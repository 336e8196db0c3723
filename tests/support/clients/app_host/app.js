// The page of `app_server.py`: calls its tool and reads its data by the names that it knows from its own code.
import { App } from "@modelcontextprotocol/ext-apps";

const app = new App({ name: "test-app", version: "1" }, {});
const ask = async (request) => {
  try {
    return await request();
  } catch (error) {
    return `error: ${error.message}`;
  }
};
await app.connect();
const tool = await ask(async () => {
  const result = await app.callServerTool({ name: "get-time", arguments: {} });
  return result.content[0].text;
});
const data = await ask(async () => {
  const result = await app.readServerResource({ uri: "ui://time/data.json" });
  return result.contents[0].text;
});
document.getElementById("answers").textContent = `app of SERVER_NAME: ${tool}, ${data}`;
