// Cost of one file of the maximum size for the platform, into a folder and into a bucket: time, CPU and memory of
// the process that stores it. The bucket's service is the small one of the tests.
import { spawn } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { LIMITS } from '../../../src/contract/versions.ts'
import { createAccount } from '../../../src/platform/accounts/queries/accounts.ts'
import { type Database, openDatabase } from '../../../src/database/database.ts'
import { bring, type Upload, zeros } from '../../support/platform/artifacts/artifact-uploads.ts'
import { startServer } from '../../support/database/database-servers.ts'
import { addLocation } from '../../support/platform/locations.ts'
import { addMonitor } from '../../support/platform/monitor-rows.ts'
import { startS3Server } from '../../support/platform/artifacts/s3-server.ts'
import { cpuMsOf, memoryMiBOf } from '../process-figures.ts'
import { markdownTable } from '../table.ts'

const ROUNDS = 5
/** As src/launch.js runs the platform. */
const FLAGS = ['--max-semi-space-size=12', '--heap-growing-percent=30']
const SLOT = 1_760_000_000_000

/** Prints a row for each store. */
export async function benchArtifacts(): Promise<void> {
  const server = await startServer('embedded')
  const folder = await mkdtemp(join(tmpdir(), 'vedette-bench-'))
  const { keys: _, failWith: __, close, ...bucket } = await startS3Server(folder)
  const url = server.running.urlPattern.replace('{database}', server.running.template)
  const database = openDatabase({ address: { url }, applicationName: 'bench' })
  const head = ['store', 'MB/s', 'CPU ms per file', 'memory before', 'highest']
  const rows = [head]
  for (const [name, env] of [
    ['folder', { FOLDER: join(folder, 'artifacts') }],
    ['bucket', { S3: JSON.stringify(bucket) }],
  ] as const) {
    rows.push([name, ...(await weigh(database, { DATABASE_URL: url, ...env }))])
  }
  process.stdout.write(`${markdownTable(rows)}\n`)
  close()
  await database.close()
  await server.stop()
  await rm(folder, { recursive: true })
}

async function weigh(database: Database, env: Record<string, string>): Promise<string[]> {
  const script = fileURLToPath(
    new URL('../../support/platform/artifacts/artifact-process.ts', import.meta.url),
  )
  const child = spawn(process.execPath, [...FLAGS, script], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const kill = () => void child.kill()
  process.once('exit', kill)
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const port = Number(/port (\d+)/.exec(line.toString())?.[1])
  const pid = child.pid ?? 0
  const accountId = randomUUID()
  await createAccount(database, { id: accountId, name: 'bench' })
  const location = await addLocation(database, { accountId })
  const monitorId = await addMonitor(database, accountId, { locations: [location] })
  const { secret } = location
  const to = { port, secret, owner: `${monitorId}.${SLOT}` }
  await store({ ...to, name: 'warm', body: randomBytes(1_000_000) })
  const before = { cpuMs: cpuMsOf(pid), memory: memoryMiBOf(pid).now, at: performance.now() }
  const bytes = LIMITS.artifactBytesMax
  for (let round = 0; round < ROUNDS; round++) {
    const { body, digest } = zeros(bytes)
    const headers = { 'content-digest': digest, 'content-length': String(bytes) }
    await store({ ...to, name: `file ${round}`, body, headers })
  }
  const seconds = (performance.now() - before.at) / 1000
  const cpuMs = (cpuMsOf(pid) - before.cpuMs) / ROUNDS
  const { peak } = memoryMiBOf(pid)
  child.kill()
  await once(child, 'exit')
  process.off('exit', kill)
  return [
    ((ROUNDS * bytes) / 1e6 / seconds).toFixed(0),
    cpuMs.toFixed(0),
    `${before.memory.toFixed(0)} MiB`,
    `${peak.toFixed(0)} MiB`,
  ]
}

async function store(file: Upload): Promise<void> {
  const { status } = await bring(file)
  if (status !== 200) throw new Error(`${file.name} was not stored: status ${status}`)
}
