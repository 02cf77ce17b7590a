// The parts of undici that are used. The whole package would add 13 MiB to the memory of each agent.
import { createRequire } from 'node:module'
import type * as undici from 'undici'

const load = createRequire(import.meta.url)

/** Connections to one origin. */
export const Pool = load('undici/lib/dispatcher/pool.js') as typeof undici.Pool

/** Makes a function that opens connections, TLS included. */
export const buildConnector = load('undici/lib/core/connect.js') as typeof undici.buildConnector

/** Opens one connection. */
export type Connector = undici.buildConnector.connector

/** Sends one request; its `this` is the dispatcher. */
export const request = load('undici/lib/api/api-request.js') as (
  this: Pick<undici.Dispatcher, 'dispatch'>,
  options: undici.Dispatcher.RequestOptions,
) => Promise<undici.Dispatcher.ResponseData>
