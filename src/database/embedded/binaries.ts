// Finds the programs of the PostgreSQL that npm brings, and proves that they run here.
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { EmbeddedPostgresError } from './embedded-postgres-error.ts'

/** Where the programs are, and their major version. */
export interface PostgresBinaries {
  postgres: string
  initdb: string
  major: number
}

const VERSION_MS = 10_000

/** The programs for this machine. Throws EmbeddedPostgresError `BINARIES`. */
export function findPostgresBinaries(): PostgresBinaries {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const folder = join(packageFolder(name), 'native', 'bin')
  const postgres = join(folder, 'postgres')
  const options = { env: {}, encoding: 'utf8', timeout: VERSION_MS } as const
  const asked = spawnSync(postgres, ['--version'], options)
  const major = Number(/\(PostgreSQL\) (\d+)/.exec(asked.stdout ?? '')?.[1])
  if (asked.status !== 0 || Number.isNaN(major)) {
    const why = asked.error?.message ?? asked.stderr.trim()
    // Without its install script the links to its libraries are missing in the package.
    const fix = `run \`npm rebuild ${name}\`, or set DATABASE_URL`
    throw new EmbeddedPostgresError('BINARIES', `PostgreSQL does not run: ${why}; ${fix}`)
  }
  return { postgres, initdb: join(folder, 'initdb'), major }
}

function packageFolder(name: string): string {
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)))
  } catch (error) {
    const message = `no embedded PostgreSQL for this machine (${name} is not installed); set DATABASE_URL`
    throw new EmbeddedPostgresError('BINARIES', message, { cause: error })
  }
}
