// The phases that a URL monitor reports against those of `curl -w` for the same server, in turn, by the median
// of 50.
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { UrlMonitor } from '../../src/contract/http-monitor.ts'
import { url } from '../../src/monitors/url/index.ts'
import { startDelayedServer } from './delayed-server.ts'
import { plainContext } from './plain-context.ts'
import { median } from './process-figures.ts'
import { markdownTable } from './table.ts'

const ROUNDS = 50
const DELAYS = { tlsMs: 20, firstByteMs: 30, downloadMs: 15 }
const PHASES = ['connectMs', 'tlsMs', 'firstByteMs', 'downloadMs', 'totalMs'] as const
type Phases = Record<(typeof PHASES)[number], number>

const run = promisify(execFile)

/** Prints the median of each phase by both, and the difference. */
export async function benchPhases(): Promise<void> {
  const server = await startDelayedServer(DELAYS)
  const folder = await mkdtemp(join(tmpdir(), 'vedette-bench-'))
  // Only one certificate: curl counts the reading of a whole bundle as part of the handshake.
  const caFile = join(folder, 'ca.pem')
  await writeFile(caFile, server.certificate)
  const monitor = UrlMonitor.parse({
    id: 'phases',
    name: 'phases',
    checkType: 'URL',
    request: { url: server.url, tls: { ca: server.certificate } },
  })
  const ours: Phases[] = []
  const curls: Phases[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const observation = await url.prepare(monitor)(plainContext())
    if (observation.failures.length > 0) throw new Error(JSON.stringify(observation.failures))
    ours.push(observation.observed['phases'] as Phases)
    curls.push(await curlPhases(server.url, caFile))
  }
  server.close()
  await rm(folder, { recursive: true })
  const rows = PHASES.map((phase) => {
    const [our, curl] = [ours, curls].map((all) => median(all.map((one) => one[phase]))) as [
      number,
      number,
    ]
    return [phase, our.toFixed(2), curl.toFixed(2), (our - curl).toFixed(2)]
  })
  process.stdout.write(
    `${markdownTable([['phase', 'Vedette', 'curl -w', 'difference'], ...rows])}\n`,
  )
}

// curl gives instants since the start; phases are the differences. Its pretransfer is the moment at
// which the request goes out. The second of two transfers counts: the first pays for the set-up of
// OpenSSL in the new process.
async function curlPhases(address: string, caFile: string): Promise<Phases> {
  const format =
    '%{time_namelookup} %{time_connect} %{time_appconnect} %{time_pretransfer} %{time_starttransfer} %{time_total}'
  const transfer = ['-fso', '/dev/null', '--http1.1', '--no-sessionid', '--cacert', caFile]
  const both = [...transfer, '-H', 'connection: close', '-w', `${format}\n`, address]
  const { stdout } = await run('curl', [...both, '--next', ...both])
  const [lookup = 0, connected = 0, secure = 0, sent = 0, first = 0, total = 0] = (
    stdout.split('\n')[1] ?? ''
  )
    .split(' ')
    .map((seconds) => Number(seconds) * 1000)
  return {
    connectMs: connected - lookup,
    tlsMs: secure - connected,
    firstByteMs: first - sent,
    downloadMs: total - first,
    totalMs: total,
  }
}
