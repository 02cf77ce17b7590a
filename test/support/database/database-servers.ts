// The PostgreSQL servers that the tests of one run share, started on the first request of a test file: the npm
// package's and Debian's. Runs in vitest's own process, separate from the tests.
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { createLog } from '../../../src/process/log.ts'
import {
  findPostgresBinaries,
  type PostgresBinaries,
} from '../../../src/database/embedded/binaries.ts'
import { postgresFolder, prepareFolder } from '../../../src/database/embedded/folder.ts'
import { PostgresProcess } from '../../../src/database/embedded/process.ts'
import { choosePostgresUser } from '../../../src/database/embedded/user.ts'
import { openDatabase } from '../../../src/database/database.ts'
import { migrate } from '../../../src/database/migrate.ts'
import { freePort } from '../network/free-port.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Address of requests for a server: GET <address>/<name>. */
    databaseServers: string
  }
}

/** A running server, with a migrated database to clone. */
export interface RunningServer {
  /** URL of any database on it: `{database}` stands for its name. */
  urlPattern: string
  template: string
}

const log = createLog({ level: 'error', pretty: true })
const TEMPLATE = 'vedette_template'

/** Called by vitest before and, what it returns, after all tests. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const servers = new Map<string, Promise<StartedServer>>()
  const broker = createServer((request, response) => {
    const name = (request.url ?? '/').slice(1)
    const started = servers.get(name) ?? startServer(name)
    servers.set(name, started)
    started.then(
      ({ running }) => response.end(JSON.stringify(running)),
      (error: Error) => response.writeHead(500).end(error.stack),
    )
  })
  project.provide('databaseServers', await listen(broker))
  return async () => {
    broker.closeAllConnections()
    broker.close()
    const ended = await Promise.allSettled(servers.values())
    for (const one of ended) if (one.status === 'fulfilled') await one.value.stop()
  }
}

/** A server of this run, and its stop function. */
export interface StartedServer {
  running: RunningServer
  /**
   * Ends it and starts it again at the same address. `fast` closes sessions and writes everything,
   * `immediate` leaves that to the recovery at the next start (as in pg_ctl). `away` runs in between.
   */
  restart(how: 'fast' | 'immediate', away?: () => Promise<void>): Promise<void>
  stop(): Promise<void>
}

/** Test data need not survive a power failure. */
const HASTE = { fsync: 'off' }

/**
 * Starts a server with a migrated template: `embedded`, or `other` for TEST_DATABASE_URL or Debian's.
 * Rejects when it is not ready within 60 s. Settings of PostgreSQL can be added to the platform's own, except for a
 * server that is already running.
 */
export async function startServer(
  name: string,
  more: Readonly<Record<string, string>> = HASTE,
): Promise<StartedServer> {
  const given = process.env['TEST_DATABASE_URL']
  if (name === 'other' && given !== undefined) return startGiven(given)
  const binaries = name === 'other' ? debianBinaries() : findPostgresBinaries()
  const dataDir = mkdtempSync(join(tmpdir(), 'vedette-test-'))
  chmodSync(dataDir, 0o755)
  const folder = postgresFolder(dataDir)
  const user = choosePostgresUser(folder.root, binaries.postgres)
  await prepareFolder(folder, user, binaries)
  const port = await freePort()
  const settings = { listen_addresses: '127.0.0.1', max_connections: '200', ...more }
  const start = async () => {
    const started = new PostgresProcess({ binaries, user, folder, log, port, settings })
    await started.ready(TEMPLATE, AbortSignal.timeout(60_000))
    return started
  }
  let server = await start()
  const urlPattern = `postgresql://vedette@127.0.0.1:${port}/{database}`
  await migrateTemplate(urlPattern)
  return {
    running: { urlPattern, template: TEMPLATE },
    async restart(how, away) {
      if (how === 'immediate') process.kill(server.pid ?? -1, 'SIGQUIT')
      else await server.stop()
      await server.ended
      await away?.()
      server = await start()
    },
    async stop() {
      await server.stop()
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

/** A server from TEST_DATABASE_URL; tests create and drop their databases on it by name. */
async function startGiven(url: string): Promise<StartedServer> {
  const template = `${TEMPLATE}_${process.pid}`
  const pattern = new URL(url)
  pattern.pathname = '/{database}'
  const urlPattern = decodeURI(pattern.href)
  const server = openDatabase({ address: { url }, applicationName: 'vedette tests' })
  await server.query(`create database ${template} template template0 encoding 'UTF8'`)
  await migrateTemplate(urlPattern, template)
  return {
    running: { urlPattern, template },
    restart: () => Promise.reject(new Error('a server that somebody named is not ours to restart')),
    async stop() {
      await server.query(`drop database ${template}`)
      await server.close()
    },
  }
}

async function migrateTemplate(urlPattern: string, template = TEMPLATE): Promise<void> {
  const address = { url: urlPattern.replace('{database}', template) }
  const database = openDatabase({ address, applicationName: 'vedette tests' })
  await migrate(database)
  await database.close()
}

/** Debian's newest PostgreSQL. */
export function debianBinaries(): PostgresBinaries {
  const major = debianMajors().at(-1)
  if (major === undefined) throw new Error('no PostgreSQL of Debian: apt-get install postgresql')
  const bin = `/usr/lib/postgresql/${major}/bin`
  return { postgres: `${bin}/postgres`, initdb: `${bin}/initdb`, major }
}

/** Installed major versions of Debian's packages, oldest first. */
export function debianMajors(): number[] {
  try {
    return readdirSync('/usr/lib/postgresql')
      .map(Number)
      .filter(Number.isInteger)
      .sort((a, b) => a - b)
  } catch {
    return []
  }
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
