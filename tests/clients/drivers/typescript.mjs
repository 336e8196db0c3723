// The official TypeScript SDKs as a program that is told by JSON lines what to do: @modelcontextprotocol/sdk, and
// @modelcontextprotocol/client, which came after it.
//
// Usage: node typescript.mjs OPTIONS; options, commands and what is answered: tests/support/clients/client_driver.py.
// The packages are where options.modules says.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const options = JSON.parse(process.argv[2]);
const require = createRequire(`${options.modules}/`);
const MODES = { legacy: 'legacy', auto: 'auto', pinned: { pin: '2026-07-28' } };
const INFO = { name: 'typescript-sdk', version: '1' };
const CAPABILITIES = { elicitation: { form: {} } };

const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
const named = () => ({ action: 'accept', content: { name: 'Ada' } });
const told = () => say({ changed: 'tools' });

const families = {
    // one era; the standing stream is opened without being asked for
    sdk: async () => {
        const types = require('@modelcontextprotocol/sdk/types.js');
        const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
        const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
        const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
        const client = new Client(INFO, { capabilities: CAPABILITIES });
        client.setRequestHandler(types.ElicitRequestSchema, named);
        client.setNotificationHandler(types.ToolListChangedNotificationSchema, told);
        const transport = transportTo(StdioClientTransport, StreamableHTTPClientTransport);
        let revision;
        const passOn = transport.setProtocolVersion?.bind(transport);
        transport.setProtocolVersion = (version) => {
            revision = version; // the client itself does not tell
            passOn?.(version);
        };
        await client.connect(transport);
        return {
            revision,
            listen: async () => {},
            list: () => client.listTools(),
            call: (params, how) => client.callTool(params, undefined, how),
            close: () => client.close(),
        };
    },
    // both eras; in the modern one the application listens
    client: async () => {
        const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
        const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');
        const client = new Client(INFO, {
            capabilities: CAPABILITIES,
            versionNegotiation: { mode: MODES[options.mode] },
        });
        client.setRequestHandler('elicitation/create', named);
        client.setNotificationHandler('notifications/tools/list_changed', told);
        await client.connect(transportTo(StdioClientTransport, StreamableHTTPClientTransport));
        const modern = client.getProtocolEra() === 'modern';
        return {
            revision: client.getNegotiatedProtocolVersion(),
            listen: async () => void (modern && (await client.listen({ toolsListChanged: true }))),
            list: () => client.listTools(undefined, { cacheMode: 'bypass' }),
            call: (params, how) => client.callTool(params, how),
            close: () => client.close(),
        };
    },
};

function transportTo(Stdio, Http) {
    if (options.url) return new Http(new URL(options.url));
    const [command, ...args] = options.command;
    return new Stdio({ command, args, env: options.env, cwd: options.cwd });
}

async function answered(id, work) {
    try {
        say({ id, value: await work });
    } catch (problem) {
        say({ id, error: `${problem.name}: ${problem.message}` });
    }
}

async function main() {
    const client = await families[options.family]();
    const running = new Map();
    const commands = {
        listen: () => client.listen(),
        list: async () => (await client.list()).tools.map((tool) => tool.name),
        call: ({ id, tool, arguments: given }) => {
            running.set(id, new AbortController());
            return client.call(
                { name: tool, arguments: given },
                { signal: running.get(id).signal, onprogress: ({ progress }) => say({ id, progress }) },
            );
        },
        cancel: async ({ call }) => running.get(call).abort('cancelled'),
    };
    say({ ready: client.revision });
    for await (const line of createInterface({ input: process.stdin })) {
        const command = JSON.parse(line);
        answered(command.id, commands[command.do](command));
    }
    await client.close();
    process.exit();
}

await main();
