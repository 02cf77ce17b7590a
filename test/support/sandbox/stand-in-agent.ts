// A stand-in for an agent whose sandboxes are tested: a process with secrets in its environment, its memory and its
// data folder. It always runs one well-behaved script, and others on request. Requests and answers are lines of
// JSON on standard input and output.
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createSandbox } from '../../../src/sandbox/sandbox.ts'
import { removeTree } from '../../../src/sandbox/remove-tree.ts'
import type { StandInRequest, StandInFacts } from './stand-in.ts'
import type { SandboxRequest } from '../../../src/sandbox/request.ts'

const MEBIBYTE = 1_048_576
const LIMITS = {
  // On a busy machine a run gets little CPU time: other limits end it first.
  wallMs: 240_000,
  cpuMs: 20_000,
  memoryBytes: 256 * MEBIBYTE,
  processes: 40,
  outputBytes: MEBIBYTE,
  diskBytes: 64 * MEBIBYTE,
  fileBytes: 32 * MEBIBYTE,
  openFiles: 1024,
}

const root = process.argv[2] as string
const dataFolder = join(root, 'data')
mkdirSync(dataFolder, { mode: 0o700 })
writeFileSync(join(dataFolder, 'key'), 'planted-secret', { mode: 0o600 })
// Readable for all, so that only the sandbox protects it.
writeFileSync(join(root, 'spool'), 'planted-secret', { mode: 0o666 })

const sandbox = createSandbox({
  network: { blocked: ['198.51.100.0/24'], allowed: [] },
  isolation: 'require',
  firstUserId: 64_200,
})

const say = (what: object) => process.stdout.write(`${JSON.stringify(what)}\n`)

async function run(request: StandInRequest): Promise<void> {
  const folder = mkdtempSync(join(root, 'run-'))
  const stop = new AbortController()
  const startedAt = performance.now()
  const order: SandboxRequest = {
    command: request.command,
    args: request.args.map((text) => text.replaceAll('{folder}', folder)),
    folder,
    readable: request.readable ?? [],
    limits: { ...LIMITS, ...request.limits },
    ask: { signal: 'SIGTERM', to: 'leader', graceMs: 300 },
    onOutput(chunk) {
      if (request.stopAt !== undefined && chunk.includes(request.stopAt)) stop.abort()
      if (request.echo === true) say({ id: request.id, output: chunk.toString() })
    },
  }
  const end = await sandbox.run(order, stop.signal)
  const tookMs = performance.now() - startedAt
  await removeTree(folder)
  say({ id: request.id, end, tookMs, folder })
}

/** Local sockets of the agent's system with access for everybody, such as a container engine's. */
const service = createServer((socket) => socket.end('planted-secret'))
service.listen(join(root, 'service.sock'), () => {
  chmodSync(join(root, 'service.sock'), 0o777)
  const facts: StandInFacts = { pid: process.pid, dataFolder, root }
  say({ facts })
})

createInterface({ input: process.stdin }).on('line', (line) => {
  void run(JSON.parse(line) as StandInRequest).catch((error: unknown) => {
    say({ fault: String((error as Error).stack) })
  })
})
