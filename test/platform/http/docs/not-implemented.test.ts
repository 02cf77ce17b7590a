// Aim: a client that asks for an operation of the public document which is not here learns what to use instead,
// and no such entry hides an operation that is here.
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  NOT_IMPLEMENTED,
  operationsOf,
} from '../../../../src/platform/http/docs/not-implemented.ts'
import { useDatabase } from '../../../support/database/database.ts'
import { startPublicApi, type PublicApi } from '../../../support/platform/public-api.ts'

const database = useDatabase()
let api: PublicApi

beforeAll(async () => {
  api = await startPublicApi(database().database)
})
afterAll(() => api.close())

const ALL = NOT_IMPLEMENTED.flatMap(([sentence, ...operations]) =>
  operations.flatMap(operationsOf).map((one) => ({ ...one, sentence })),
)

test('every entry answers 501 with its sentence', async () => {
  for (const { method, path, sentence } of ALL) {
    const asked = path.replaceAll(/\{\w+\}/g, '0b0f1c3e-6a55-4d3f-9a5e-0a6f6d2f9a01')
    const answer = await fetch(`${api.url}${asked}?limit=1`, { method })
    expect([method, path, answer.status]).toEqual([method, path, 501])
    expect(await answer.json()).toEqual({
      statusCode: 501,
      error: 'Not Implemented',
      message: sentence,
    })
  }
})

test('no entry is an operation of the document', () => {
  const shapeOf = (path: string) => path.replaceAll(/\{\w+\}/g, '{}')
  const there = Object.entries(api.document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${shapeOf(path)}`),
  )
  expect(there.length).toBeGreaterThan(50)
  expect(ALL.filter(({ method, path }) => there.includes(`${method} ${shapeOf(path)}`))).toEqual([])
})

test.each([
  ['GET', '/v1/dashboards/1/2'],
  ['PATCH', '/v1/dashboards'],
  ['GET', '/v1/nothing'],
  ['GET', '/v1'],
])('%s %s is an unknown route', async (method, path) => {
  expect((await fetch(`${api.url}${path}`, { method })).status).toBe(404)
})
