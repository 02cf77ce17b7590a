// Services, which incidents affect and status pages show.
import { randomUUID } from 'node:crypto'
import { Service, ServiceInput } from '../../contract/api/incident.ts'
import type { Database } from '../../database/database.ts'
import {
  deleteService,
  insertService,
  listServices,
  readService,
  renameService,
} from './queries.ts'
import { notFound, ApiError } from '../http/errors.ts'
import { pageJson, pageOf, pageParameters } from '../http/listing.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'

const TAG = 'Status Page Services'
const PATH = '/v1/status-pages/services'
const ONE = `${PATH}/{serviceId}`
const params = { serviceId: idParameter('service') }
const answers = { status: 200 as const, schema: Service, description: 'The service' }

/** The operations on services. */
export function serviceOperations(database: Database): DefinedOperation[] {
  return [
    defineOperation({
      operationId: 'getV1StatuspagesServices',
      tag: TAG,
      summary: 'List services',
      method: 'get',
      path: PATH,
      action: 'read',
      query: pageParameters('services'),
      answers: {
        status: 200,
        schema: pageOf(Service, 'StatusPageServicesPage'),
        description: 'A page of services, newest first',
      },
      async answer({ key, query: { limit, nextId: after } }) {
        const page = await listServices(database, { owner: key.accountId, limit, after })
        return { status: 200, json: pageJson('services', page) }
      },
    }),
    defineOperation({
      operationId: 'postV1StatuspagesServices',
      tag: TAG,
      summary: 'Create a service',
      method: 'post',
      path: PATH,
      action: 'write',
      body: ServiceInput,
      answers: { ...answers, status: 201 },
      async answer({ key: { accountId }, body: { name } }) {
        const json = await insertService(database, { id: randomUUID(), accountId, name })
        return { status: 201, json }
      },
    }),
    ...oneService(database),
  ]
}

function oneService(database: Database): DefinedOperation[] {
  return [
    defineOperation({
      operationId: 'getV1StatuspagesServicesServiceid',
      tag: TAG,
      summary: 'Read a service',
      method: 'get',
      path: ONE,
      action: 'read',
      params,
      answers,
      answer: async ({ key, params: { serviceId } }) =>
        found(await readService(database, key.accountId, serviceId)),
    }),
    defineOperation({
      operationId: 'putV1StatuspagesServicesServiceid',
      tag: TAG,
      summary: 'Rename a service',
      method: 'put',
      path: ONE,
      action: 'write',
      params,
      body: ServiceInput,
      answers,
      answer: async ({ key: { accountId }, params: { serviceId: id }, body: { name } }) =>
        found(await renameService(database, { id, accountId, name })),
    }),
    defineOperation({
      operationId: 'deleteV1StatuspagesServicesServiceid',
      tag: TAG,
      summary: 'Delete a service',
      description: 'Its incidents continue to show it.',
      method: 'delete',
      path: ONE,
      action: 'write',
      params,
      answers: { status: 204, description: 'The service is deleted' },
      conflict: 'A status page shows the service',
      async answer({ key, params: { serviceId } }) {
        const outcome = await database.transaction((tx) =>
          deleteService(tx, key.accountId, serviceId),
        )
        if (outcome === 'absent') throw notFound('service')
        if (outcome === 'shown') throw new ApiError(409, 'A status page shows this service')
        return { status: 204 }
      },
    }),
  ]
}

function found(json: string | undefined): { status: 200; json: string } {
  if (json === undefined) throw notFound('service')
  return { status: 200, json }
}
